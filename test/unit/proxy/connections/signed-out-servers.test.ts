import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Command } from '#proxy/cli/command';
import { serversCommand } from '#proxy/cli/servers';
import { statusCommand } from '#proxy/cli/status';
import { connectionViews } from '#proxy/connections/connection-views';
import { apiKeyAccount } from '#proxy/keychain/secret-accounts';
import type { Connection } from '#proxy/config/connection';
import { serverListView } from '#proxy/connections/server-list-views';
import { sentSecrets } from '#proxy/connections/stored-secrets';
import type { RunningProxy } from '#proxy/status/running-proxy';
import { storedCheck } from '#proxy/status/stored-check';
import { listedConnection, type ListedConnection } from '#support/listed-connection';

let at: ListedConnection;
beforeEach(async () => {
  at = await listedConnection();
  at.answer = listing({ granted: true });
});
afterEach(async () => at[Symbol.asyncDispose]());

const listing = ({ granted }: { granted: boolean }) => ({
  status: 200,
  body: { servers: [{ resource: at.url, name: 'sales', title: 'Sales', granted }] },
});

/** What the command and the tray app show of the server. */
async function shown() {
  const assistants = await at.connections.assistants();
  const of = { assistants, problemOf: () => undefined };
  const view = await serverListView(at.list, of, at.connections);
  return view.servers[0];
}

/** What `latchkey servers` prints. */
const printed = async (...flags: string[]) => printedBy(serversCommand, ...flags);

async function printedBy(command: Command, ...flags: string[]): Promise<string[]> {
  const lines: string[] = [];
  const print = (line: string) => void lines.push(line);
  const connection = async (target: string) => at.host.readConnection(target, at.options);
  const host = Object.assign(Object.create(null), {
    ...at.host,
    options: () => at.options,
    connection,
    print,
    advise: print,
  });
  const input = { operands: [], flags: new Map(flags.map((flag) => [flag, ['']])), options: {} };
  await command.run(input, host, { all: async () => [], meant: () => undefined });
  return lines;
}

const running = (state: RunningProxy['state']): RunningProxy => ({
  pid: 7,
  startedAt: 1,
  version: '1',
  name: 'sales',
  url: at.url,
  state,
  sinceAt: 1,
});

const stateWith = async (...proxies: RunningProxy[]) => {
  const views = await connectionViews(proxies, { host: at.host, options: at.options });
  return views.find(({ name }) => name === 'sales');
};

test('servers: a connection that assistants start and that is signed out requires a sign-in', async () => {
  const before = await printed();
  await at.share('sales');

  expect(before).toEqual([
    at.origin,
    '  Sales  sign-in required, in use by Gemini CLI, Cursor (sales)',
    '         hint: latchkey login sales',
  ]);
  expect(await printed()).toEqual([at.origin, '  Sales  in use by Gemini CLI, Cursor (sales)']);
});

test('servers: as JSON, the state stays, and what is required stands beside it', async () => {
  const [text = ''] = await printed('json');
  const { lists } = JSON.parse(text);

  expect(lists[0].servers).toMatchObject([{ state: 'in_use', requires: 'sign_in' }]);
});

test('servers: a shared sign-in that no longer includes the server requires a new one', async () => {
  await at.share('sales');
  const before = await shown();
  at.answer = listing({ granted: false });

  expect(before).not.toHaveProperty('requires');
  expect(await shown()).toMatchObject({
    assistants: ['Gemini CLI', 'Cursor'],
    requires: 'sign_in',
  });
});

test('servers: a connection with a sign-in of its own does not depend on the shared one', async () => {
  await at.share('sales');
  const { vault } = await at.host.account(await salesConnection(), at.options);
  const { renewedBy: _, ...own } = (await vault.access()) ?? { accessToken: '' };
  await vault.save({ obtainedAt: 1, issuer: at.origin, published: true, ...own });
  at.answer = listing({ granted: false });

  expect(await shown()).not.toHaveProperty('requires');
});

/** A connection whose key the keychain does not have. */
async function withoutKey(url: string): Promise<Connection> {
  const input = { name: 'sales', url, as: 'api_key' as const, apiKeySecret: 'mcp_key' };
  await at.connections.add(await at.connections.describe(input), { replace: true, check: false });
  const connection = await at.connections.own('sales');
  if (!connection) throw new Error('no connection');
  await (await at.host.store(at.options)).remove(apiKeyAccount(connection));
  return connection;
}

test('servers: a URL of a server is one word of the command that replaces a key', async () => {
  const url = `${at.url}?a=1&b='$(id)'`;
  at.answer = { status: 200, body: { servers: [{ resource: url, name: 'sales', granted: true }] } };
  await withoutKey(url);

  expect((await printed()).join('\n')).toContain(
    String.raw`latchkey add sales '${at.url}?a=1&b='\''$(id)'\''' --replace`,
  );
});

test('a missing key: the URL is one word of the command that status, doctor and proxy name', async () => {
  const connection = await withoutKey(`${at.url}?a=1&b='$(id)'`);
  const command = String.raw`latchkey add sales '${at.url}?a=1&b='\''$(id)'\''' --replace`;
  const check = storedCheck([connection], {
    ...at.host,
    account: async (one) => at.host.account(one, at.options),
    hasSecrets: async (one) => at.connections.hasSecrets(one),
    words: () => ({ message: '', hint: '' }),
  });

  expect((await printedBy(statusCommand)).at(-1)).toBe(`  hint: ${command}`);
  expect(await check.run(new AbortController().signal)).toMatchObject([
    { hint: `store it with ${command}` },
  ]);
  await expect(sentSecrets(connection, await at.host.store(at.options))).rejects.toThrow(command);
});

test('servers: a key that the keychain does not have is required', async () => {
  const input = { name: 'sales', url: at.url, as: 'api_key' as const, apiKeySecret: 'mcp_key' };
  await at.connections.add(await at.connections.describe(input), { replace: true, check: false });
  const before = await shown();
  const connection = await at.connections.own('sales');
  await (await at.host.store(at.options)).remove(apiKeyAccount(connection ?? { url: at.url }));

  expect(before).not.toHaveProperty('requires');
  expect(await shown()).toMatchObject({ requires: 'key' });
  expect((await printed()).slice(1)).toEqual([
    '  Sales  API key required, in use by Gemini CLI, Cursor (sales)',
    `         hint: latchkey add sales ${at.url} --replace`,
  ]);
  expect(await stateWith(running('ready'))).toMatchObject({
    state: 'needs_sign_in',
    reason: 'API key not found in the keychain',
  });
});

async function salesConnection() {
  const connection = await at.connections.own('sales');
  if (connection?.credentials.kind !== 'authorization_code') throw new Error('no sign-in');
  return { ...connection, credentials: connection.credentials };
}

test('connections: after the tokens are gone, a proxy that was ready before does not hide it', async () => {
  await at.share('sales');
  const before = await stateWith(running('ready'));
  const { vault } = await at.host.account(await salesConnection(), at.options);
  await vault.clear();

  expect(before).toMatchObject({ state: 'ready' });
  expect(await stateWith(running('ready'))).toMatchObject({
    state: 'needs_sign_in',
    reason: 'not signed in',
    proxies: [{ pid: 7 }],
  });
});

test('connections: a proxy of a server that requires no sign-in is ready', async () => {
  expect(await stateWith(running('ready'))).toMatchObject({ state: 'ready' });
});
