import type { Answers } from './answers.ts';
import type { ConnectionView, Failed, MenuFailure, Overview, SignInView } from './contract.ts';
import { failureOf, type Report } from './outcome.ts';
import {
  companies,
  companyHost,
  companySignIn,
  isInProgress,
  listOf,
  secretWords,
  signInOf,
  stateWords,
  waitsForCompany,
  type Company,
} from './state.ts';
import { windowNames, windows, type WindowName } from './windows.ts';

/** The action that a click requests. */
export type MenuAction =
  | {
      do:
        | 'signIn'
        | 'cancelSignIn'
        | 'signOut'
        | 'signInCompany'
        | 'signOutCompany'
        | 'reconnect'
        | 'openDashboard'
        | 'rotate'
        | 'rename';
      name: string;
    }
  | { do: 'open'; window: WindowName }
  | { do: 'startAtLogin'; on: boolean }
  | { do: 'quit' };

/** An item of the tray's menu. An item without `action` and `items` is a line to read. */
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

/** How many connections a menu shows without scrolling; the window lists all of them. */
const connectionLimit = 12;

/** The tray's menu: the sign-ins of companies and the first connections, each with its state, then the windows and the app itself. */
export function menu(overview: Overview): MenuItem[] {
  const { known, connections, signIns, startAtLogin, trouble } = overview;
  const listed = connections.slice(0, connectionLimit);
  const more = connections.length - listed.length;
  return [
    ...(trouble ? [line(`${stateShapes.trouble} ${trouble.problem}`)] : []),
    ...(connections.length === 0 && !trouble
      ? [line(known ? 'No connections yet' : 'Loading connections…')]
      : []),
    ...companies(connections).map((one) => companyItem(one, companySignIn(one, signIns))),
    ...listed.map((one) => connectionItem(one, signInOf(one, signIns))),
    ...(more > 0 ? [open(`${more} more…`, 'connections')] : []),
    { kind: 'separator' },
    ...windowNames.flatMap((name) => {
      const { menuLabel } = windows[name];
      return menuLabel === undefined ? [] : [open(menuLabel, name)];
    }),
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

/** The sign-in at the provider of a company, for all connections that share it. */
function companyItem(company: Company, last: SignInView | undefined): MenuItem {
  const { signedIn, signedInAs, names } = company;
  const [name] = names;
  const signIn = last && isInProgress(last) ? last : undefined;
  const word = signedIn ? 'Signed in' : 'Sign-in required';
  const state = signedIn ? 'ready' : 'needs_sign_in';
  const cancel = signIn && item('Cancel sign-in', { do: 'cancelSignIn', name: signIn.name });
  const change = signedIn
    ? item('Sign out', { do: 'signOutCompany', name })
    : item('Sign in…', { do: 'signInCompany', name });
  return {
    kind: 'item',
    label: `${stateShapes[signIn ? 'connecting' : state]} ${companyHost(company)} — ${signIn ? 'Waiting for browser' : word}`,
    enabled: true,
    items: [
      line(signedInAs === undefined ? 'Company sign-in' : `Signed in as ${signedInAs}`),
      line(`For ${listOf(names)}`),
      { kind: 'separator' },
      cancel ?? change,
    ],
  };
}

function connectionItem(one: ConnectionView, given: SignInView | undefined): MenuItem {
  const { name, as, state, account, dashboard, rotates, own, company } = one;
  // The item of the company shows a sign-in there.
  const isShared = waitsForCompany(one);
  const signIn = isShared ? undefined : given;
  const word = signIn ? 'Waiting for browser' : stateWords[state];
  const person = as === 'person';
  const readable = one.url !== '';
  const actions: MenuItem[] = [
    ...(signIn ? [item('Cancel sign-in', { do: 'cancelSignIn', name })] : []),
    ...(person && !signIn && !isShared && state === 'needs_sign_in'
      ? [item('Sign in…', { do: 'signIn', name })]
      : []),
    ...(rotates ? [item(rotateWords(one), { do: 'rotate', name })] : []),
    ...(person && !signIn && !company && state !== 'needs_sign_in'
      ? [item('Sign out', { do: 'signOut', name })]
      : []),
    item('Reconnect', { do: 'reconnect', name }),
    ...(own ? [item('Rename…', { do: 'rename', name })] : []),
    ...(dashboard === undefined ? [] : [item('Open dashboard', { do: 'openDashboard', name })]),
  ];
  return {
    kind: 'item',
    label: `${stateShapes[signIn ? 'connecting' : state]} ${name} — ${word}`,
    enabled: true,
    items: readable
      ? [
          line(account === undefined ? asWords[as] : `Signed in as ${account}`),
          line(hostOf(one.url)),
          { kind: 'separator' },
          ...actions,
        ]
      : [line('The configuration cannot be read'), open('Connections', 'connections')],
  };
}

function rotateWords(one: ConnectionView): string {
  const what = secretWords(one);
  if (one.state !== 'needs_key') return `Rotate ${what}…`;
  return `Enter ${what}…`;
}

/** A shape beside each word, because menus have no colours. */
const stateShapes: Record<ConnectionView['state'], string> = {
  ready: '●',
  connecting: '◐',
  needs_sign_in: '◇',
  needs_key: '◇',
  trouble: '▲',
  offline: '○',
};

const asWords: Record<ConnectionView['as'], string> = {
  person: 'Personal sign-in',
  client: 'OAuth client',
  api_key: 'API key',
};

function hostOf(url: string): string {
  const { host, pathname } = new URL(url);
  return host + pathname;
}

function item(label: string, action: MenuAction): MenuItem {
  return { kind: 'item', label, enabled: true, action };
}

function open(label: string, window: WindowName): MenuItem {
  return item(label, { do: 'open', window });
}

function line(label: string): MenuItem {
  return { kind: 'item', label, enabled: false };
}

/** An item in the form that Electron's menus accept. */
export type MenuTemplate = {
  type?: 'separator' | 'checkbox';
  label?: string;
  enabled?: boolean;
  checked?: boolean;
  click?: () => void;
  submenu?: MenuTemplate[];
};

/** The template of an item, whose click runs its action. */
export function menuTemplate(of: MenuItem, act: (action: MenuAction) => void): MenuTemplate {
  if (of.kind === 'separator') return { type: 'separator' };
  const { label, enabled, checked, action, items } = of;
  return {
    label,
    enabled,
    ...(checked !== undefined && { type: 'checkbox', checked }),
    ...(action && { click: () => act(action) }),
    ...(items && { submenu: items.map((one) => menuTemplate(one, act)) }),
  };
}

export type MenuActionsPorts = {
  answers: Answers;
  openWindow: (window: WindowName, name?: string) => void;
  startAtLogin: (on: boolean) => void;
  quit: () => void;
  /** Called with `undefined` before each action, and with the failure if an action fails. */
  failed: (failure: MenuFailure | undefined) => void;
  report: Report;
};

/** Runs the action of a click in the menu or on a notification. */
export function menuActions({
  answers,
  openWindow,
  startAtLogin,
  quit,
  failed,
  report,
}: MenuActionsPorts): (action: MenuAction) => void {
  let count = 0;

  /** Shows a failure in the window, because the menu has closed by now. */
  function show(name: string, { problem, remedy }: Failed): void {
    count += 1;
    failed({ name, problem, remedy, count });
    openWindow('connections');
  }

  return (action) => {
    failed(undefined);
    switch (action.do) {
      case 'open':
        return openWindow(action.window);
      case 'rotate':
        return openWindow('key', action.name);
      case 'rename':
        return openWindow('rename', action.name);
      case 'startAtLogin':
        try {
          return startAtLogin(action.on);
        } catch (error) {
          const { remedy } = failureOf(error, report);
          return show('', { ok: false, problem: 'Start at login could not be changed.', remedy });
        }
      case 'quit':
        return quit();
      case 'signIn':
      case 'cancelSignIn':
      case 'signOut':
      case 'signInCompany':
      case 'signOutCompany':
      case 'reconnect':
      case 'openDashboard':
        return void answers[action.do]({ name: action.name })
          .catch((error: unknown) => failureOf(error, report, action.name))
          .then((outcome) => {
            if (!outcome.ok) show(action.name, outcome);
          });
    }
  };
}
