import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { serverCreate, serverUpdate } from '#server/admin/servers';
import { accessSet } from '#server/admin/upstream-access';
import {
  headerForgetPrevious,
  headerList,
  headerRemove,
  headerRestore,
  headerSet,
} from '#server/admin/upstream-headers';
import { insertAgent } from '#server/db/agents';
import { findOrganization } from '#server/db/organizations';
import { findServer } from '#server/db/servers';
import { administered, type Administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';
import { tokenUpstream } from '#support/token-upstream';

const at = { organization: 'acme', server: 'web' };
const url = 'https://mcp.example/mcp';
const value = 'kq8-a-value-that-nobody-sees-again';

let place: Administered;
beforeEach(async () => {
  place = await administered();
  await place.perform(serverUpdate, { ...at, upstream: { kind: 'http', url } });
});
afterEach(() => place[Symbol.asyncDispose]());

const set = (name: string, text: string, but = {}) =>
  place.perform(headerSet, { ...at, name, value: text, ...but });
/** The values that a server's requests carry now, and the previous ones. */
async function sent(name = 'web') {
  const server = await findServer(place.stores.db, 'acme', name);
  if (server?.target.upstream.kind !== 'http') return {};
  const { headers = [], url: there } = server.target.upstream;
  const of = { targetId: server.target.id, url: there };
  const { upstreamSetup } = place.ports;
  const former = headers.flatMap(({ name: header, previous }) =>
    previous ? [{ ...previous, name: header }] : [],
  );
  return {
    now: upstreamSetup.openHeaders(of, headers),
    before: upstreamSetup.openHeaders(of, former),
  };
}
const events = async () =>
  (await newestEvents(place.stores.db, 100))
    .filter(({ action }) => action.includes('header'))
    .map(({ action, target, outcome }) => `${action} ${target ?? ''} ${outcome}`)
    .toReversed();

test('a header is stored under its name in lower case, shown by a hint, and recorded by its name', async () => {
  const shown = await set('X-Api-Key', value);

  expect(shown).toMatchObject({
    server: 'web',
    items: [{ name: 'x-api-key', hint: '…gain', setAt: place.clock.now(), previous: null }],
    refusedAt: null,
  });
  expect(await place.perform(headerList, at)).toEqual(shown);
  expect(await sent()).toEqual({ now: { 'x-api-key': value }, before: {} });
  expect(await events()).toEqual(['server.set-header header:x-api-key server:acme/web done']);
});

test('a value is in no answer, no record and no refusal', async () => {
  const made = await set('x-key', value);
  await set('x-key', `${value}2`);
  const answers = [
    made,
    await place.perform(headerList, at),
    await place.perform(headerRestore, { ...at, header: 'x-key' }),
    await place.perform(headerForgetPrevious, { ...at, header: 'x-key' }),
  ];
  const refused = await set('host', value).catch((error: unknown) => error);
  const broken = await set('x-key', `${value}\r\n`).catch((error: unknown) => error);
  const kept = place.stores.connection.prepare('select * from target').all();
  const audit = await newestEvents(place.stores.db, 100);
  const seen = JSON.stringify([answers, kept, audit]) + String(refused) + String(broken);

  expect(seen).not.toContain(value);
  expect(refused).toMatchObject({ code: 'invalid', fields: [{ field: 'name' }] });
  expect(broken).toMatchObject({ code: 'invalid', fields: [{ field: 'value' }] });
});

test('a new value is sent from the next call, and the one before can be restored', async () => {
  await set('x-key', 'one');
  place.clock.advance(100);
  const replaced = await set('x-key', 'two');
  const both = await sent();
  const restored = await place.perform(headerRestore, { ...at, header: 'X-Key' });
  const back = await sent();

  expect(replaced.items[0]?.previous).toMatchObject({
    setAt: place.clock.now() - 100,
    until: place.clock.now() + 7 * 86_400,
  });
  expect(both).toEqual({ now: { 'x-key': 'two' }, before: { 'x-key': 'one' } });
  expect(restored.items[0]?.setAt).toBe(place.clock.now() - 100);
  expect(back).toEqual({ now: { 'x-key': 'one' }, before: { 'x-key': 'two' } });
});

test('the same value set again changes nothing, so that no previous value is lost', async () => {
  await set('x-key', 'one');
  await set('x-key', 'two');
  await set('x-key', 'two');

  expect(await sent()).toEqual({ now: { 'x-key': 'two' }, before: { 'x-key': 'one' } });
});

test('the previous value is deleted on request, or after seven days', async () => {
  await set('x-key', 'one');
  await set('x-key', 'two');
  const forgotten = await place.perform(headerForgetPrevious, { ...at, header: 'x-key' });
  const none = await sent();
  await set('x-key', 'three');
  place.clock.advance(7 * 86_400);
  const [late] = (await place.perform(headerList, at)).items;

  expect(forgotten.items[0]?.previous).toBeNull();
  expect(none).toEqual({ now: { 'x-key': 'two' }, before: {} });
  expect(late?.previous).toBeNull();
  await expect(place.perform(headerRestore, { ...at, header: 'x-key' })).rejects.toMatchObject({
    code: 'conflict',
    message: 'the header has no previous value',
  });
});

test('removing a header deletes both its values', async () => {
  await set('x-key', 'one');
  await set('x-key', 'two');
  const { items } = await place.perform(headerRemove, { ...at, header: 'x-key' });
  const row = place.stores.connection
    .prepare('select t.* from target t join endpoint e on e.id = t.endpoint_id where e.name = ?')
    .get('web');

  expect(items).toEqual([]);
  expect(row).toMatchObject({ upstream_headers: null });
  for (const operation of [headerRemove, headerRestore, headerForgetPrevious]) {
    await expect(place.perform(operation, { ...at, header: 'x-key' })).rejects.toMatchObject({
      code: 'not_found',
    });
  }
});

test('of two changes based on the same revision the second changes nothing', async () => {
  const { revision } = await set('x-key', 'one');
  await set('x-key', 'two', { revision });

  for (const late of [
    set('x-key', 'three', { revision }),
    place.perform(headerRestore, { ...at, header: 'x-key', revision }),
  ]) {
    await expect(late).rejects.toMatchObject({ code: 'conflict' });
  }
  expect(await sent()).toEqual({ now: { 'x-key': 'two' }, before: { 'x-key': 'one' } });
});

test('headers that are set concurrently are all stored', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `x-key-${index + 10}`);
  await Promise.all(names.map((name) => set(name, name)));

  expect(await sent()).toMatchObject({ now: Object.fromEntries(names.map((one) => [one, one])) });
});

test('a server has at most twenty headers', async () => {
  for (let index = 0; index < 20; index += 1) await set(`x-key-${index}`, 'v');

  await expect(set('x-key-20', 'v')).rejects.toMatchObject({ code: 'conflict' });
  expect((await set('x-key-19', 'another')).items).toHaveLength(20);
});

test.each([[{ kind: 'demo' }], [{ kind: 'agent', agent: 'hq' }]])(
  'a server whose upstream is %o has none, and its error says so',
  async (upstream) => {
    const organizationId = (await findOrganization(place.stores.db, 'acme'))?.id ?? '';
    await insertAgent(place.stores.db, {
      id: 'agent_hq',
      organizationId,
      name: 'hq',
      createdAt: 1,
    });
    await place.perform(serverUpdate, { ...at, upstream });

    await expect(set('x-key', 'one')).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('only an HTTP upstream can have fixed headers'),
    });
    await expect(place.perform(headerRemove, { ...at, header: 'x-key' })).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(
      place.perform(serverUpdate, {
        ...at,
        upstream: { ...upstream, headers: [{ name: 'x-key', value: 'one' }] },
      }),
    ).rejects.toMatchObject({ code: 'invalid' });
  },
);

describe('a server whose upstream URL changes', () => {
  const point = (to: string, but = {}) =>
    place.perform(serverUpdate, { ...at, upstream: { kind: 'http', url: to, ...but } });

  test('keeps its headers within the origin', async () => {
    await set('x-key', 'one');
    const { removedHeaders } = await point('https://mcp.example/other');

    expect(removedHeaders).toEqual([]);
    expect(await sent()).toMatchObject({ now: { 'x-key': 'one' } });
  });

  test('has none at another origin, lists them in the answer, and has none when it returns', async () => {
    await set('x-key', 'one');
    await set('a-key', 'two');
    const { removedHeaders } = await point('https://mcp.example:8443/mcp');
    const there = await sent();
    await point(url);

    expect(removedHeaders).toEqual(['a-key', 'x-key']);
    expect(there).toEqual({ now: {}, before: {} });
    expect(await sent()).toEqual({ now: {}, before: {} });
    expect((await events()).slice(2)).toEqual([
      'server.remove-header header:a-key server:acme/web done',
      'server.remove-header header:x-key server:acme/web done',
    ]);
  });

  test('has none at a kind of upstream without headers, and none when it returns', async () => {
    await set('x-key', 'one');
    const upstream = { kind: 'demo' };
    const { removedHeaders } = await place.perform(serverUpdate, { ...at, upstream });
    const { items } = await place.perform(headerList, at);
    await point(url);

    expect(removedHeaders).toEqual(['x-key']);
    expect(items).toEqual([]);
    expect(await sent()).toEqual({ now: {}, before: {} });
  });

  test('gets its headers for the new URL in the same change', async () => {
    await set('x-key', 'one');
    const headers = [{ name: 'X-Key', value: 'there' }];
    const { removedHeaders } = await point('https://other.example/mcp', { headers });

    expect(removedHeaders).toEqual([]);
    expect(await sent()).toEqual({ now: { 'x-key': 'there' }, before: {} });
  });

  test('keeps them if an administrator saves the same URL again', async () => {
    await set('x-key', 'one');
    const upstream = { kind: 'http', url };
    await place.perform(
      serverUpdate,
      { ...at, upstream, title: 'Web' },
      await place.person('admin'),
    );

    expect(await sent()).toMatchObject({ now: { 'x-key': 'one' } });
  });
});

test('a server is created with its headers, each recorded by its name', async () => {
  const headers = [
    { name: 'X-Key', value },
    { name: 'Cookie', value: 'session=1' },
  ];
  const made = await place.perform(serverCreate, {
    organization: 'acme',
    name: 'keyed',
    upstream: { kind: 'http', url, headers },
  });

  expect(await sent('keyed')).toEqual({
    now: { cookie: 'session=1', 'x-key': value },
    before: {},
  });
  expect(JSON.stringify(made)).not.toContain(value);
  expect(await events()).toEqual([
    'server.set-header header:cookie server:acme/keyed done',
    'server.set-header header:x-key server:acme/keyed done',
  ]);
});

test.each([
  [
    [
      { name: 'x-a', value: '1' },
      { name: 'X-A', value: '2' },
    ],
    'upstream.headers',
  ],
  [[{ name: 'host', value: '1' }], 'upstream.headers.0.name'],
  [[{ name: 'x-a', value: 'a\r\nb' }], 'upstream.headers.0.value'],
  [
    Array.from({ length: 21 }, (_, index) => ({ name: `x-${index}`, value: '1' })),
    'upstream.headers',
  ],
])('a server cannot be created with the headers %j', async (headers, field) => {
  const upstream = { kind: 'http', url, headers };

  await expect(
    place.perform(serverCreate, { organization: 'acme', name: 'keyed', upstream }),
  ).rejects.toMatchObject({ code: 'invalid', fields: [{ field }] });
});

describe('Authorization', () => {
  test('is refused as a header if the upstream gets a token, and the token if it is a header', async () => {
    await using upstream = await tokenUpstream();
    await place.perform(serverUpdate, { ...at, upstream: { kind: 'http', url: upstream.url } });
    const access = { ...at, kind: 'authorization_code', clientId: 'ours', issuer: upstream.issuer };
    await set('Authorization', 'Basic eDp5');
    const asked = upstream.seen.length;
    await expect(place.perform(accessSet, access)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('remove that header first'),
    });
    const untouched = upstream.seen.length === asked;
    await place.perform(accessSet, { ...at, kind: 'none', forwardsCaller: true });
    await place.perform(headerRemove, { ...at, header: 'authorization' });
    await place.perform(accessSet, access);

    expect(untouched).toBe(true);
    await expect(set('authorization', 'Basic eDp5')).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('set it to none first'),
    });
    expect(await set('x-key', 'one')).toMatchObject({ items: [{ name: 'x-key' }] });
  });
});
