import type { ConnectionView, Overview, SignInView } from '#contract';
import { secretWords } from '#secret-words';
import { stateWords } from '#state-words';

/** What a click asks for. */
export type MenuAction =
  | {
      do: 'signIn' | 'cancelSignIn' | 'signOut' | 'reconnect' | 'openDashboard' | 'rotate';
      name: string;
    }
  | { do: 'open'; window: 'connections' | 'add' | 'assistants' | 'doctor' }
  | { do: 'startAtLogin'; on: boolean }
  | { do: 'quit' };

/** An item of the tray's menu. One without `action` and `items` is a line to read. */
export type MenuItem =
  | { kind: 'separator' }
  | {
      kind: 'item';
      label: string;
      enabled: boolean;
      checked?: boolean;
      action?: MenuAction;
      items?: MenuItem[];
    };

/** As many as a menu shows without scrolling; the rest stand in the window. */
const shown = 12;

/** The tray's menu: every connection with its state in a word, then what can be done. */
export function menu(overview: Overview): MenuItem[] {
  const { known, connections, signIns, startAtLogin, trouble } = overview;
  const listed = connections.slice(0, shown);
  const more = connections.length - listed.length;
  return [
    ...(trouble ? [line(`${stateShapes.trouble} ${trouble.problem}`)] : []),
    ...(connections.length === 0 && !trouble
      ? [line(known ? 'No connections yet' : 'Loading connections…')]
      : []),
    ...listed.map((one) => connectionItem(one, signInOf(one, signIns))),
    ...(more > 0 ? [open(`${more} more…`, 'connections')] : []),
    { kind: 'separator' },
    open('Connections', 'connections'),
    open('Add connection…', 'add'),
    open('Assistants', 'assistants'),
    open('Doctor', 'doctor'),
    { kind: 'separator' },
    {
      kind: 'item',
      label: 'Start at login',
      enabled: true,
      checked: startAtLogin,
      action: { do: 'startAtLogin', on: !startAtLogin },
    },
    item('Quit Latchkey', { do: 'quit' }),
  ];
}

function connectionItem(one: ConnectionView, signIn: SignInView | undefined): MenuItem {
  const { name, as, state, account, dashboard, rotates } = one;
  const word = signIn ? 'waiting for you in the browser' : stateWords[state];
  const person = as === 'person';
  const readable = one.url !== '';
  const actions: MenuItem[] = [
    ...(signIn ? [item('Cancel sign-in', { do: 'cancelSignIn', name })] : []),
    ...(person && !signIn && state === 'needs_sign_in'
      ? [item('Sign in…', { do: 'signIn', name })]
      : []),
    ...(rotates ? [item(rotateWords(one), { do: 'rotate', name })] : []),
    ...(person && !signIn && state !== 'needs_sign_in'
      ? [item('Sign out', { do: 'signOut', name })]
      : []),
    item('Reconnect', { do: 'reconnect', name }),
    ...(dashboard === undefined ? [] : [item('Open dashboard', { do: 'openDashboard', name })]),
  ];
  return {
    kind: 'item',
    label: `${stateShapes[signIn ? 'connecting' : state]} ${name} — ${word}`,
    enabled: true,
    items: readable
      ? [
          line(account === undefined ? asWords[as] : `As ${account}`),
          line(hostOf(one.url)),
          { kind: 'separator' },
          ...actions,
        ]
      : [line('Its configuration cannot be read'), open('Connections', 'connections')],
  };
}

function rotateWords(one: ConnectionView): string {
  const what = secretWords(one);
  if (one.state !== 'needs_key') return `Rotate ${what}…`;
  return `Enter ${what}…`;
}

/** The sign-in that is under way for a connection. */
export function signInOf(
  { name }: ConnectionView,
  signIns: readonly SignInView[],
): SignInView | undefined {
  return signIns.find(
    (one) => one.name === name && (one.phase === 'opening' || one.phase === 'waiting'),
  );
}

/** A shape beside each word, as no menu has colours of ours. */
const stateShapes: Record<ConnectionView['state'], string> = {
  ready: '●',
  connecting: '◐',
  needs_sign_in: '◇',
  needs_key: '◇',
  trouble: '▲',
  offline: '○',
};

const asWords: Record<ConnectionView['as'], string> = {
  person: 'As a person',
  client: 'As an OAuth client',
  api_key: 'By API key',
};

function hostOf(url: string): string {
  const { host, pathname } = new URL(url);
  return host + pathname;
}

function item(label: string, action: MenuAction): MenuItem {
  return { kind: 'item', label, enabled: true, action };
}

function open(label: string, window: Extract<MenuAction, { do: 'open' }>['window']): MenuItem {
  return item(label, { do: 'open', window });
}

function line(label: string): MenuItem {
  return { kind: 'item', label, enabled: false };
}
