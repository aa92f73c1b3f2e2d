import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';

import { serverProcess } from '#support/server-process';

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());
const { base, command } = stack.use(await serverProcess());

await command(['organization', 'create', 'acme']);
await command(['organization', 'create', 'other']);
await command(['server', 'create', 'acme/sales', '--demo']);
await command(['server', 'update', 'acme/sales', '--title', 'Internal title']);
await command(['server', 'create', 'acme/closed', '--demo']);
await command(['server', 'create', 'acme/off', '--demo']);
await command(['server', 'create', 'acme/wiki', '--demo']);
await command(['server', 'create', 'other/secret', '--demo']);
const publish = (path: string, ...words: string[]) =>
  command(['deployment', 'publish', path, ...words]);
await publish('acme/sales', '--title', 'Sales', '--description', 'Orders and customers');
await publish('acme/wiki', '--description', 'The wiki');
await publish('acme/off', '--description', 'Switched off');
await command(['server', 'disable', 'acme/off']);

const registry = `${base}/registry/acme`;
const list = `${registry}/v0.1/servers`;
const host = '127.0.0.1';
const nameOf = (server: string) => encodeURIComponent(`${host}/acme.${server}`);

/** The shapes that the specification publishes, with nothing beyond them. Registry API 2025-12-01, server.schema.json 2025-12-11 */
const remoteSchema = z.strictObject({
  type: z.enum(['streamable-http', 'sse']),
  url: z.string().regex(/^https?:\/\/\S+$/),
});
const factsSchema = {
  $schema: z.url(),
  name: z
    .string()
    .min(3)
    .max(200)
    .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  title: z.string().min(1).max(100).optional(),
  description: z.string().min(1).max(100),
  version: z
    .string()
    .max(255)
    .regex(/^\d+\.\d+\.\d+$/),
  remotes: z.array(remoteSchema),
};
const entrySchema = z.strictObject({
  server: z.strictObject(factsSchema),
  _meta: z.strictObject({
    'io.modelcontextprotocol.registry/official': z.strictObject({
      status: z.enum(['active', 'deprecated', 'deleted']),
      publishedAt: z.iso.datetime(),
      updatedAt: z.iso.datetime(),
      isLatest: z.boolean(),
    }),
  }),
});
const listSchema = z.strictObject({
  servers: z.array(entrySchema),
  metadata: z.strictObject({ count: z.int(), nextCursor: z.string().optional() }),
});
const cardSchema = z.strictObject({
  ...factsSchema,
  $schema: z.literal('https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'),
});

/** The status, the headers that say something, and the body. */
async function read(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers });
  const shown = ['content-type', 'cache-control', 'access-control-allow-origin', 'etag', 'vary'];
  const seen = shown.map((name) => response.headers.get(name));
  return { status: response.status, headers: seen, text: await response.text() };
}

async function listed(query = '') {
  return listSchema.parse(JSON.parse((await read(`${list}${query}`)).text));
}

test('registry: lists what was published, in the published form, and by pages', async () => {
  const all = await listed();
  const first = await listed('?limit=1');
  const second = await listed(`?limit=1&cursor=${first.metadata.nextCursor}`);

  expect(all.servers.map(({ server: { name, title } }) => [name, title])).toEqual([
    [`${host}/acme.sales`, 'Sales'],
    [`${host}/acme.wiki`, undefined],
  ]);
  expect(all.servers[0]?.server.remotes).toEqual([
    { type: 'streamable-http', url: `${base}/mcp/acme/sales` },
  ]);
  expect([...first.servers, ...second.servers]).toEqual(all.servers);
  expect(second.metadata).toEqual({ count: 1 });
  expect((await listed('?search=WIKI')).metadata.count).toBe(1);
  expect((await listed('?version=2.0.0')).metadata.count).toBe(0);
  expect((await listed('?updated_since=2999-01-01T00:00:00Z')).metadata.count).toBe(0);
  expect((await listed('?updated_since=2020-01-01T00:00:00Z&version=latest')).servers).toEqual(
    all.servers,
  );
});

test.each(['?limit=0', '?limit=-1', '?limit=x', '?updated_since=yesterday'])(
  'registry: %s is refused',
  async (query) => {
    expect((await read(`${list}${query}`)).status).toBe(400);
  },
);

test('registry: a server and its versions are read by name, and not at all under the name of another', async () => {
  const latest = await read(`${list}/${nameOf('sales')}/versions/latest`);
  const { server: sales } = entrySchema.parse(JSON.parse(latest.text));
  const exact = await read(`${list}/${nameOf('sales')}/versions/${sales.version}`);
  const versions = await read(`${list}/${nameOf('sales')}/versions`);

  expect(exact.text).toBe(latest.text);
  expect(listSchema.parse(JSON.parse(versions.text)).servers).toHaveLength(1);
  const others = [
    `${list}/${nameOf('sales')}/versions/9.9.9`,
    `${list}/${encodeURIComponent('com.evil/acme.sales')}/versions/latest`,
    `${base}/registry/other/v0.1/servers/${nameOf('sales')}/versions/latest`,
  ];
  for (const url of others) {
    expect(await read(url)).toMatchObject({ status: 404, text: '{"error":"Server not found"}' });
  }
});

test('registry: a known answer is not sent again, and changed words are another version', async () => {
  const before = await fetch(`${list}/${nameOf('wiki')}/versions/latest`);
  const tag = before.headers.get('etag') ?? '';
  const known = await read(before.url, { 'If-None-Match': tag });
  await publish('acme/wiki', '--description', 'The wiki of Acme');
  const after = await read(before.url, { 'If-None-Match': tag });

  expect(known).toMatchObject({ status: 304, text: '' });
  expect(after.status).toBe(200);
  expect(entrySchema.parse(JSON.parse(after.text)).server).toMatchObject({
    description: 'The wiki of Acme',
    version: '1.0.1',
  });
});

test('server card: it has the published form, and the catalogue leads to it', async () => {
  const catalogue = await fetch(`${base}/.well-known/ai-catalog.json`);
  const { entries } = z
    .strictObject({
      specVersion: z.literal('1.0'),
      entries: z.array(
        z.strictObject({
          identifier: z.string().startsWith('urn:air:'),
          type: z.literal('application/mcp-server-card+json'),
          url: z.string().startsWith(base),
        }),
      ),
    })
    .parse(await catalogue.json());
  const card = await fetch(entries[0]?.url ?? '');

  expect(catalogue.headers.get('content-type')).toContain('application/ai-catalog+json');
  expect(entries.map(({ url }) => url)).toEqual([
    `${base}/mcp/acme/sales/server-card`,
    `${base}/mcp/acme/wiki/server-card`,
  ]);
  expect(card.headers.get('content-type')).toContain('application/mcp-server-card+json');
  expect(card.headers.get('access-control-allow-origin')).toBe('*');
  expect(cardSchema.parse(await card.json())).toMatchObject({
    description: 'Orders and customers',
  });
});

test('215: registry: what is closed, disabled, of another organization or unknown has one answer', async () => {
  const readAll = async (organization: string, server: string) => [
    await read(`${base}/mcp/${organization}/${server}/server-card`),
    await read(
      `${base}/registry/${organization}/v0.1/servers/${encodeURIComponent(`${host}/${organization}.${server}`)}/versions/latest`,
    ),
  ];
  const unknown = await readAll('acme', 'nothing');

  for (const [organization, name] of [
    ['acme', 'closed'],
    ['acme', 'off'],
    ['other', 'secret'],
    ['nobody', 'nothing'],
  ] as const) {
    expect(await readAll(organization, name)).toEqual(unknown);
  }
  const empty = await read(`${base}/registry/nobody/v0.1/servers`);
  expect(await read(`${base}/registry/other/v0.1/servers`)).toEqual(empty);
  expect(JSON.parse(empty.text)).toEqual({ servers: [], metadata: { count: 0 } });
});

test('215: registry: no answer has anything of a server but what was published', async () => {
  const urls = [
    list,
    `${list}/${nameOf('sales')}/versions`,
    `${list}/${nameOf('sales')}/versions/latest`,
    `${base}/mcp/acme/sales/server-card`,
    `${base}/.well-known/ai-catalog.json`,
  ];
  const texts = await Promise.all(urls.map(async (url) => (await read(url)).text));

  for (const text of texts) {
    expect(text).toMatch(/sales/);
    expect(text).not.toMatch(/internal|closed|\boff\b|switched|secret|other|srv_|org_|user|tools/i);
  }
});

test('215: registry: what is no longer published is gone, and both are in the audit log', async () => {
  await publish('acme/closed', '--description', 'For a moment');
  const during = await read(`${base}/mcp/acme/closed/server-card`);
  await command(['deployment', 'unpublish', 'acme/closed']);
  const events = await command(['audit', 'list', 'acme', '--json']);

  expect(during.status).toBe(200);
  expect((await read(`${base}/mcp/acme/closed/server-card`)).status).toBe(404);
  expect((await listed()).servers).toHaveLength(2);
  expect(events).toMatch(/"deployment\.publish"[^}]*acme\/closed/);
  expect(events).toMatch(/"deployment\.unpublish"[^}]*acme\/closed/);
});
