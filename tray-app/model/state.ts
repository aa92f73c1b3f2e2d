/* How the state of the connections is shown: in words, by the tray icon, and in notifications. */
import type { ConnectionView, Overview, SignInView } from './contract.ts';

/** The state of a connection in a word or two, in the menu and in the Connections window. */
export const stateWords: Record<ConnectionView['state'], string> = {
  ready: 'Connected',
  connecting: 'Connecting',
  needs_sign_in: 'Sign-in required',
  needs_key: 'Key required',
  trouble: 'Error',
  offline: 'Offline',
};

/** The word for the secret that can be rotated. A connection with a personal sign-in has one if its OAuth client has a secret. */
export function secretWords({ as }: Pick<ConnectionView, 'as'>): string {
  return as === 'api_key' ? 'API key' : 'client secret';
}

/** A sign-in at the provider of a company, and the names of the connections that share it. */
export type Company = NonNullable<ConnectionView['company']> & {
  names: readonly [string, ...string[]];
};

/** The sign-ins at providers that connections share, in the order of their first connections. */
export function companies(connections: readonly ConnectionView[]): Company[] {
  const all = new Map<string, Company>();
  for (const { name, company } of connections) {
    if (!company) continue;
    const key = JSON.stringify([company.issuer, company.clientId]);
    const known = all.get(key);
    all.set(key, { ...company, names: known ? [...known.names, name] : [name] });
  }
  return [...all.values()];
}

/** Names in a sentence: `sales, support and finance`. */
export function listOf(names: readonly string[]): string {
  return new Intl.ListFormat('en-GB').format(names);
}

/** The host of a company's provider, which serves as its name. */
export function companyHost({ issuer }: Pick<Company, 'issuer'>): string {
  return new URL(issuer).host;
}

/** Whether a connection needs nothing but the sign-in that it shares with others. */
export function waitsForCompany({ state, company }: ConnectionView): boolean {
  return state === 'needs_sign_in' && company !== undefined && !company.signedIn;
}

/** The sign-in at a company's provider that is in progress or has failed. Its name is that of the connection it was started for. */
export function companySignIn(
  { signedIn, names }: Company,
  signIns: readonly SignInView[],
): SignInView | undefined {
  const own = signIns.filter(({ name }) => names.includes(name));
  return signedIn
    ? undefined
    : (own.find(isInProgress) ?? own.find(({ phase }) => phase === 'failed'));
}

export function signInOf(
  { name }: Pick<ConnectionView, 'name'>,
  signIns: readonly SignInView[],
): SignInView | undefined {
  return signIns.find((one) => one.name === name && isInProgress(one));
}

export function isInProgress({ phase }: Pick<SignInView, 'phase'>): boolean {
  return phase === 'opening' || phase === 'waiting';
}

/** The icon and the text of the tray while its menu is closed. */
export type TrayStatus = {
  icon: 'well' | 'attention' | 'trouble' | 'offline';
  /** The same in words, shown on hover and read by screen readers. */
  tooltip: string;
};

/** The worst state of all connections. States that need the user come before those that resolve without the user. */
export function trayStatus({ known, connections, signIns, trouble }: Overview): TrayStatus {
  if (trouble) return { icon: 'trouble', tooltip: `Latchkey: ${trouble.problem}` };
  const waiting = signIns.find(({ phase }) => phase === 'waiting');
  if (waiting)
    return {
      icon: 'attention',
      tooltip: `Latchkey: waiting for the browser, to sign in to ${waiting.name}`,
    };
  const needy = connections.filter(
    ({ state }) => state === 'needs_sign_in' || state === 'needs_key',
  );
  const troubled = connections.filter(({ state }) => state === 'trouble');
  const offline = connections.filter(({ state }) => state === 'offline');
  if (troubled.length > 0)
    return { icon: 'trouble', tooltip: `Latchkey: error in ${listed(troubled)}` };
  if (needy.length > 0)
    return {
      icon: 'attention',
      tooltip: `Latchkey: action required for ${listed(needy)}`,
    };
  if (offline.length > 0)
    return { icon: 'offline', tooltip: `Latchkey: ${listed(offline)} cannot be reached` };
  if (!known) return { icon: 'well', tooltip: 'Latchkey: loading connections' };
  if (connections.length === 0) return { icon: 'well', tooltip: 'Latchkey: no connections yet' };
  return { icon: 'well', tooltip: 'Latchkey: all connections work' };
}

function listed(some: readonly { name: string }[]): string {
  const [first, second] = some;
  if (some.length === 1) return first?.name ?? '';
  if (some.length === 2) return `${first?.name} and ${second?.name}`;
  return `${some.length} connections`;
}

/**
 * The file of the tray icon. macOS colours a template image itself; on other systems, a dark panel gets the light icon.
 * Electron finds the double-size file by its name.
 */
export function iconFile(icon: TrayStatus['icon'], platform: string, darkPanel: boolean): string {
  if (platform === 'darwin') return `${icon}Template.png`;
  return `${icon}-${darkPanel ? 'light' : 'dark'}.png`;
}

/** A desktop notification about a connection, and what a click on it does. */
export type Notice = {
  name: string;
  title: string;
  body: string;
  opens: 'signIn' | 'signInCompany' | 'key';
};

/**
 * The notifications to show when the connections change: one for each connection that now needs the user, and one for all that need
 * the same sign-in at a company's provider, unless they already did for the same reason. The caller claims each notification before
 * showing it, so that no other program shows it again on the same day.
 */
export function notices(before: Overview | undefined, now: Overview): Notice[] {
  const isWaiting = (name: string) =>
    now.signIns.some((one) => one.name === name && one.phase === 'waiting');
  const waitedFor = now.connections.filter(({ name }) => isWaiting(name));
  const known = [...(before?.connections ?? []), ...waitedFor];
  const shown = new Set(known.map((one) => noticeOf(one)?.title));
  return now.connections
    .flatMap((one) => noticeOf(one) ?? [])
    .filter(({ title }) => {
      const isNew = !shown.has(title);
      shown.add(title);
      return isNew;
    });
}

function noticeOf(one: ConnectionView): Notice | undefined {
  const { name, state, keyDue } = one;
  const what = secretWords(one);
  if (one.company && waitsForCompany(one))
    return {
      name,
      title: `Sign in at ${companyHost(one.company)}`,
      body: 'Your connections share this sign-in of your company. Click to sign in with your browser.',
      opens: 'signInCompany',
    };
  if (state === 'needs_sign_in')
    return {
      name,
      title: `Sign in to ${name}`,
      body: 'An assistant is waiting for the sign-in. Click to sign in with your browser.',
      opens: 'signIn',
    };
  if (state === 'needs_key')
    return {
      name,
      title: `New ${what} required for ${name}`,
      body: `The ${what} is missing, or the server no longer accepts it. Click to enter a new one.`,
      opens: 'key',
    };
  if (keyDue)
    return {
      name,
      title: `Rotation due: ${what} of ${name}`,
      body: `The ${what} is 90 days old. Click to enter a new one.`,
      opens: 'key',
    };
  return undefined;
}
