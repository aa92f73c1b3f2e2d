import { expect, test } from 'vitest';
import type { ConnectionView, SignInView } from '#tray/contract';
import { menu, type MenuItem } from '#tray/menu';
import { trayFace } from '#tray/tray-face';
import { notices } from '#tray/notice';

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

test('a person’s connection offers to sign in while that is missing, and to sign out after', () => {
  expect(below(menu(overview([connection({ state: 'needs_sign_in' })])))).toContain('Sign in…');
  expect(below(menu(overview([connection()])))).toContain('Sign out');
});

test('a sign-in under way can be cancelled, and no second one begun', () => {
  const items = menu(overview([connection({ state: 'needs_sign_in' })], [signIn('waiting')]));

  expect(labels(items)[0]).toBe('◐ sales — waiting for you in the browser');
  expect(below(items)).toContain('Cancel sign-in');
  expect(below(items)).not.toContain('Sign in…');
});

test('a connection with a key offers to rotate it, or to enter one where it is refused', () => {
  const keyed = connection({ as: 'api_key', rotates: true });

  expect(below(menu(overview([keyed])))).toContain('Rotate API key…');
  expect(below(menu(overview([{ ...keyed, state: 'needs_key' }])))).toContain('Enter API key…');
});

test('whoever signs in by a client with a secret can rotate that', () => {
  const items = below(menu(overview([connection({ rotates: true })])));

  expect(items).toContain('Rotate client secret…');
  expect(items).toContain('Sign out');
});

test('a connection that cannot be read leads to the window that says why', () => {
  const items = menu(overview([connection({ url: '', state: 'trouble' })]));

  expect(labels(items)[0]).toBe('▲ sales — trouble');
  expect(below(items)).toEqual(['Its configuration cannot be read', 'Connections']);
});

test('more connections than a menu can show are counted', () => {
  const many = Array.from({ length: 15 }, (_, at) => connection({ name: `s${at}` }));

  expect(labels(menu(overview(many)))).toContain('3 more…');
});

test.for([
  [['ready'], 'well', 'Latchkey: all connections are ready'],
  [['ready', 'offline'], 'offline', 'Latchkey: s1 cannot be reached'],
  [['offline', 'needs_sign_in'], 'attention', 'Latchkey: s1 needs you'],
  [['needs_key', 'needs_sign_in'], 'attention', 'Latchkey: s0 and s1 need you'],
  [['needs_key', 'trouble'], 'trouble', 'Latchkey: trouble with s1'],
] as const)('of %j the tray shows the worst', ([states, icon, tooltip]) => {
  const all = states.map((state, at) => connection({ name: `s${at}`, state }));

  expect(trayFace(overview(all))).toEqual({ icon, tooltip });
});

test('a notice tells once that somebody is needed, and not while they are at it', () => {
  const well = overview([connection()]);
  const needy = overview([connection({ state: 'needs_sign_in' })]);
  const atIt = overview(needy.connections, [signIn('waiting')]);

  expect(notices(well, needy).map(({ title }) => title)).toEqual(['sales needs you to sign in']);
  expect(notices(needy, needy)).toEqual([]);
  expect(notices(well, atIt)).toEqual([]);
});

test('a key of 90 days is told at the first look', () => {
  const due = overview([connection({ as: 'api_key', rotates: true, keyDue: true })]);

  expect(notices(undefined, due)).toMatchObject([{ opens: 'key' }]);
});
