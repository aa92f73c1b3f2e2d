import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { endAccessHint } from '#proxy/cli/login';
import type { Options } from '#proxy/config/options';
import { serverLists } from '#proxy/config/server-lists';
import type { Connections } from '#proxy/connections/connections';
import type { ConnectionsHost } from '#proxy/connections/connections-host';
import { takeOutIfWithdrawn } from '#proxy/connections/withdrawn-servers';
import { listedConnection, otherEntry, type ListedConnection } from '#support/listed-connection';

const cursor = '.cursor/mcp.json';
const gemini = '.gemini/settings.json';
const other = otherEntry;

let at: ListedConnection;
let home: string;
let origin: string;
let url: string;
let options: Options;
let host: ConnectionsHost;
let connections: Connections;
beforeEach(async () => {
  at = await listedConnection();
  ({ home, origin, url, options, host, connections } = at);
});
afterEach(async () => at[Symbol.asyncDispose]());

const read = async (file: string) => readFile(join(home, file), 'utf8');
const entries = async (file: string) => Object.keys(JSON.parse(await read(file)).mcpServers);
const backups = async (file: string) =>
  (await readdir(join(home, dirname(file)))).filter((name) => name.endsWith('.backup'));
const withdrawn = (urls: readonly unknown[]) => ({
  status: 200,
  body: { servers: [], askable: [], withdrawn: urls },
});

test('212: withdrawn server: its entries disappear from all assistants, a backup is kept, and nothing else changes', async () => {
  at.answer = withdrawn([url]);
  const before = await read(cursor);
  const done = await takeOutIfWithdrawn(url, options, host);

  expect(at.asked).toEqual([
    `Bearer token-of-the-list /api/my/servers?known=${encodeURIComponent(url)}`,
  ]);
  expect(done).toMatchObject({
    name: 'sales',
    removed: [{ assistant: 'gemini' }, { assistant: 'cursor' }],
    problems: [],
  });
  expect([await entries(cursor), await entries(gemini)]).toEqual([['other'], ['other']]);
  expect(await readFile(done?.removed[1]?.backup ?? '', 'utf8')).toBe(before);
  expect(await connections.own('sales')).toMatchObject({ url });
  expect((await takeOutIfWithdrawn(url, options, host))?.removed).toEqual([]);
});

test('212: withdrawn server: no error, empty list or other answer takes anything out', async () => {
  const answers = [
    { status: 500, body: { withdrawn: [url] } },
    { status: 404, body: { withdrawn: [url] } },
    { status: 401, body: { withdrawn: [url] } },
    { status: 403, body: { withdrawn: [url] } },
    { status: 200, body: { servers: [] } },
    { status: 200, body: { servers: [], withdrawn: [] } },
    { status: 200, body: { servers: [], withdrawn: url } },
    { status: 200, body: { servers: [], withdrawn: { [url]: true } } },
    { status: 200, body: [url] },
    { status: 200, body: 'withdrawn' },
    withdrawn([`${url}/`, `${origin}/mcp/acme`, `${origin}/mcp/acme/wiki`, [url], null]),
    withdrawn(['https://other.example.com/mcp/acme/sales']),
  ];
  const before = [await read(cursor), await read(gemini), await backups(cursor)];
  const said: unknown[] = [];
  for (const one of answers) {
    at.answer = one;
    said.push(await takeOutIfWithdrawn(url, options, host));
  }

  expect(said).toEqual(answers.map(() => undefined));
  expect([await read(cursor), await read(gemini), await backups(cursor)]).toEqual(before);
  expect(await takeOutIfWithdrawn(`${origin}/mcp/acme/wiki`, options, host)).toBeUndefined();
});

test('212: withdrawn server: what Latchkey did not write stays', async () => {
  at.answer = withdrawn([url]);
  const own = JSON.parse(await read(cursor)).mcpServers.sales;
  const byHand = { mcpServers: { sales: { command: 'node', args: ['mine.js'] }, other } };
  await at.write(cursor, JSON.stringify(byHand));
  await connections.uninstall('gemini', 'sales');
  await at.write(gemini, JSON.stringify({ mcpServers: { sales: own, other } }));

  const done = await takeOutIfWithdrawn(url, options, host);

  expect(done?.removed).toEqual([]);
  expect(JSON.parse(await read(cursor))).toEqual(byHand);
  expect(await entries(gemini)).toEqual(['sales', 'other']);
});

/** Adds a second connection to the same URL, and signs the first one in with the list. */
async function second(name: string): Promise<void> {
  const described = await connections.describe({ name, url, as: 'person' });
  await connections.add(described, { replace: false, check: false });
  await at.share('sales');
}

const lists = async () => (await serverLists(join(home, 'state'))).map(({ servers }) => servers);

test('removed connection: another one to the same URL that shares the sign-in of the list keeps it', async () => {
  at.answer = { status: 404, body: {} };
  await second('sales-2');
  await connections.remove('sales-2');
  const sales = await connections.own('sales');

  expect(await lists()).toEqual([[url]]);
  expect(sales && (await connections.isSignedIn(sales))).toBe(true);
});

test('removed connection: the one that shared the sign-in of the list leaves it, unless another shares it', async () => {
  at.answer = { status: 404, body: {} };
  await second('sales-2');
  await at.share('sales-2');
  await connections.remove('sales');
  const whileShared = await lists();
  await connections.remove('sales-2');

  expect([whileShared, await lists()]).toEqual([[[url]], []]);
});

test('removed connection: the last one to a URL leaves the list, even if its access has ended', async () => {
  at.answer = { status: 404, body: {} };
  await connections.remove('sales');

  expect(await lists()).toEqual([]);
});

test('API key: login and logout of its connection say what to do instead', async () => {
  const input = { name: 'keyed', url: `${origin}/mcp/acme/wiki`, as: 'api_key' as const };
  const described = await connections.describe({ ...input, apiKeySecret: 'mcp_key' });
  await connections.add(described, { replace: false, check: false });

  await expect(connections.signIn('keyed', {})).rejects.toMatchObject({
    hint: `to sign in instead, run latchkey remove keyed, then latchkey setup ${input.url}; to replace the key, run latchkey rotate keyed`,
  });
  await expect(connections.signOut('keyed')).rejects.toMatchObject({
    hint: 'revoke the key in the dashboard, under Servers',
  });
});

test.each([
  ['https://latchkey.example.com/mcp/acme/sales', 'https://latchkey.example.com/account'],
  ['https://mcp.example.com/', 'account page of the server'],
])('signing out of %s: access that was not revoked is ended at %s', (server, place) => {
  expect(endAccessHint(server)).toContain(place);
});
