import { expect, test } from 'vitest';
import type { ConnectionView, SignInView } from '#tray/model/contract';
import { menu, type MenuItem } from '#tray/model/menu';
import { companies, notices, trayStatus } from '#tray/model/state';

const connection = (given: Partial<ConnectionView> = {}): ConnectionView => ({
  name: 'sales',
  url: 'https://cloud.example.com/mcp/acme/sales',
  as: 'person',
  state: 'ready',
  detail: '',
  scopes: [],
  renewable: true,
  own: true,
  usedBy: [],
  startedBy: [],
  rotates: false,
  keyDue: false,
  oldKeyKept: false,
  ...given,
});
const signIn = (phase: SignInView['phase']): SignInView => ({
  name: 'sales',
  phase,
  browserOpened: true,
  since: 0,
  problem: '',
  remedy: '',
});
const overview = (connections: ConnectionView[], signIns: SignInView[] = []) => ({
  known: true,
  connections,
  signIns,
  startAtLogin: false,
});
const labels = (items: readonly MenuItem[] = []) =>
  items.map((item) => (item.kind === 'item' ? item.label : '—'));
const below = (items: readonly MenuItem[]) => {
  const [first] = items;
  return labels(first?.kind === 'item' ? first.items : []);
};

test('menu: a personal connection offers sign-in while signed out, and sign-out afterwards', () => {
  expect(below(menu(overview([connection({ state: 'needs_sign_in' })])))).toContain('Sign in…');
  expect(below(menu(overview([connection()])))).toContain('Sign out');
});

test('menu: a running sign-in can be cancelled, and no second one can be started', () => {
  const items = menu(overview([connection({ state: 'needs_sign_in' })], [signIn('waiting')]));

  expect(labels(items)[0]).toBe('◐ sales — Waiting for browser');
  expect(below(items)).toContain('Cancel sign-in');
  expect(below(items)).not.toContain('Sign in…');
});

test('menu: a connection with a key offers to rotate it, or to enter a new one after it was rejected', () => {
  const keyed = connection({ as: 'api_key', rotates: true });

  expect(below(menu(overview([keyed])))).toContain('Rotate API key…');
  expect(below(menu(overview([{ ...keyed, state: 'needs_key' }])))).toContain('Enter API key…');
});

test('menu: a connection that uses a client with a secret offers to rotate that secret', () => {
  const items = below(menu(overview([connection({ rotates: true })])));

  expect(items).toContain('Rotate client secret…');
  expect(items).toContain('Sign out');
});

test('menu: only a connection of our own can be renamed', () => {
  expect(below(menu(overview([connection()])))).toContain('Rename…');
  expect(below(menu(overview([connection({ own: false })])))).not.toContain('Rename…');
});

test('menu: a connection that cannot be read opens the window that says why', () => {
  const items = menu(overview([connection({ url: '', state: 'trouble' })]));

  expect(labels(items)[0]).toBe('▲ sales — Error');
  expect(below(items)).toEqual(['The configuration cannot be read', 'Connections']);
});

test('menu: connections that do not fit are counted', () => {
  const many = Array.from({ length: 15 }, (_, at) => connection({ name: `s${at}` }));

  expect(labels(menu(overview(many)))).toContain('3 more…');
});

test.for([
  [['ready'], 'well', 'Latchkey: all connections work'],
  [['ready', 'offline'], 'offline', 'Latchkey: s1 cannot be reached'],
  [['offline', 'needs_sign_in'], 'attention', 'Latchkey: action required for s1'],
  [['needs_key', 'needs_sign_in'], 'attention', 'Latchkey: action required for s0 and s1'],
  [['needs_key', 'trouble'], 'trouble', 'Latchkey: error in s1'],
] as const)('tray icon: of %j it shows the worst', ([states, icon, tooltip]) => {
  const all = states.map((state, at) => connection({ name: `s${at}`, state }));

  expect(trayStatus(overview(all))).toEqual({ icon, tooltip });
});

test('notification: a required sign-in is announced once, and not while one is running', () => {
  const well = overview([connection()]);
  const needy = overview([connection({ state: 'needs_sign_in' })]);
  const atIt = overview(needy.connections, [signIn('waiting')]);

  expect(notices(well, needy).map(({ title }) => title)).toEqual(['Sign in to sales']);
  expect(notices(needy, needy)).toEqual([]);
  expect(notices(well, atIt)).toEqual([]);
});

test('notification: a key that is 90 days old is announced at the first check', () => {
  const due = overview([connection({ as: 'api_key', rotates: true, keyDue: true })]);

  expect(notices(undefined, due)).toMatchObject([{ opens: 'key' }]);
});

test('notification: a key that becomes 90 days old while the app runs is announced once', () => {
  const key = { as: 'api_key', rotates: true } as const;
  const fresh = overview([connection({ ...key, keyDue: false })]);
  const due = overview([connection({ ...key, keyDue: true })]);
  const offline = overview([connection({ ...key, keyDue: true, state: 'offline' })]);

  expect(notices(fresh, due)).toMatchObject([{ opens: 'key', name: 'sales' }]);
  expect(notices(due, due)).toEqual([]);
  expect(notices(due, offline)).toEqual([]);
  expect(notices(offline, due)).toEqual([]);
});

const signedOut = {
  issuer: 'https://id.acme.example/tenant',
  clientId: 'latchkey',
  signedIn: false,
  renewable: false,
};
const signedIn = { ...signedOut, signedIn: true, signedInAs: 'dana@acme.example', renewable: true };
const shared = (company: ConnectionView['company'], state: ConnectionView['state'] = 'ready') =>
  ['sales', 'support', 'finance'].map((name) => connection({ name, state, company }));

test('menu: connections that share the sign-in of a company have one item for it, and none of their own', () => {
  const [company, first] = menu(overview(shared(signedOut, 'needs_sign_in')));
  const one = company ? [company] : [];

  expect(labels(one)).toEqual(['◇ id.acme.example — Sign-in required']);
  expect(below(one)).toEqual([
    'Company sign-in',
    'For sales, support and finance',
    '—',
    'Sign in…',
  ]);
  expect(below(first ? [first] : [])).not.toContain('Sign in…');
});

test('menu: a sign-in at a company can be ended for all connections, and one of them alone cannot', () => {
  const [company, first] = menu(overview(shared(signedIn)));
  const one = company ? [company] : [];

  expect(labels(one)).toEqual(['● id.acme.example — Signed in']);
  expect(below(one)).toContain('Signed in as dana@acme.example');
  expect(below(one)).toContain('Sign out');
  expect(below(first ? [first] : [])).not.toContain('Sign out');
});

test('menu: a running sign-in at a company is shown and cancelled there', () => {
  const items = menu(overview(shared(signedOut, 'needs_sign_in'), [signIn('waiting')]));

  expect(labels(items).slice(0, 2)).toEqual([
    '◐ id.acme.example — Waiting for browser',
    '◇ sales — Sign-in required',
  ]);
  expect(below(items)).toContain('Cancel sign-in');
});

test('menu: a connection that the company sign-in did not cover can be signed in to itself', () => {
  const items = menu(overview([connection({ state: 'needs_sign_in', company: signedIn })]));

  expect(below(items.slice(1))).toContain('Sign in…');
});

test('companies: connections with another client at the same provider have another sign-in', () => {
  const other = connection({ name: 'other', company: { ...signedIn, clientId: 'other' } });

  expect(companies([...shared(signedIn), other]).map(({ names }) => names)).toEqual([
    ['sales', 'support', 'finance'],
    ['other'],
  ]);
});

test('notification: the sign-in of a company is announced once for all connections, and not while one is running', () => {
  const well = overview(shared(signedIn));
  const needy = overview(shared(signedOut, 'needs_sign_in'));
  const atIt = overview(needy.connections, [signIn('waiting')]);

  expect(notices(well, needy)).toMatchObject([
    { name: 'sales', title: 'Sign in at id.acme.example', opens: 'signInCompany' },
  ]);
  expect(notices(needy, needy)).toEqual([]);
  expect(notices(undefined, atIt)).toEqual([]);
});
