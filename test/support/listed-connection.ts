import { createServer } from 'node:http';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openHost } from '#proxy/app/open-host';
import { signsIn } from '#proxy/auth/account';
import { listConnection } from '#proxy/auth/server-list';
import { systemClock } from '#proxy/clock/clock';
import { readOptions, type Options } from '#proxy/config/options';
import { keepServers } from '#proxy/config/server-lists';
import { Connections } from '#proxy/connections/connections';
import type { ConnectionsHost } from '#proxy/connections/connections-host';
import { httpClient } from '#proxy/transport/http-client';
import { listen } from '#support/loopback';
import { temporaryFolder } from '#support/temporary-folder';

/** An entry of an assistant's file that Latchkey did not write. */
export const otherEntry = { command: 'npx', args: ['other'] };

/** A person who is signed in to a list of servers, with the connection `sales` that Cursor and the Gemini CLI start. */
export interface ListedConnection extends AsyncDisposable {
  readonly home: string;
  readonly origin: string;
  readonly list: string;
  /** The URL of the server that `sales` connects to. */
  readonly url: string;
  readonly options: Options;
  readonly host: ConnectionsHost;
  readonly connections: Connections;
  /** The token and path of each request. */
  readonly asked: readonly string[];
  /** The answer of the list. */
  answer: { status: number; body: unknown };
  /** Writes a file of the person. */
  write(file: string, text: string): Promise<void>;
  /** Signs a connection in with the list. */
  share(name: string): Promise<void>;
}

export async function listedConnection(): Promise<ListedConnection> {
  await using disposables = new AsyncDisposableStack();
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.headers.authorization} ${request.url}`);
    response.writeHead(listed.answer.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(listed.answer.body));
  });
  const origin = `http://127.0.0.1:${await listen(server)}`;
  disposables.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  const home = disposables.use(await temporaryFolder('home')).path;
  const state = join(home, 'state');
  const key = join(home, 'key');
  await writeFile(key, 'k'.repeat(64), { mode: 0o600 });
  const given = {
    'secret-store': 'file',
    'secret-store-key-file': key,
    'state-dir': state,
  };
  const options = readOptions(given, {});
  const network = { ...options, env: {}, clientKeyPassphraseSecret: '' };
  const host = openHost(
    {
      platform: 'linux',
      home,
      env: {},
      pid: 2,
      parentPid: 1,
      nodeVersion: process.versions.node,
      launcher: { program: '/opt/latchkey' },
      clock: systemClock(),
      http: httpClient(() => network),
      openBrowser: () => Promise.resolve(false),
      writeLog: () => undefined,
      program: 'latchkey',
    },
    () => new AbortController().signal,
  );
  const connections = new Connections({ host, options, given });
  const url = `${origin}/mcp/acme/sales`;
  const list = `${origin}/api/my/servers`;
  const write = async (file: string, text: string) => {
    await mkdir(dirname(join(home, file)), { recursive: true });
    await writeFile(join(home, file), text);
  };
  await write('.cursor/mcp.json', JSON.stringify({ mcpServers: { other: otherEntry } }));
  await write('.gemini/settings.json', JSON.stringify({ mcpServers: { other: otherEntry } }));
  const described = await connections.describe({ name: 'sales', url, as: 'person' });
  await connections.add(described, { replace: false, check: false });
  await connections.install('cursor', 'sales');
  await connections.install('gemini', 'sales');
  await keepServers(state, { list, servers: [url] });
  const { vault } = await host.account(listConnection(list), options);
  const now = host.clock.now();
  await vault.save({
    accessToken: 'token-of-the-list',
    obtainedAt: now,
    expiresAt: now + 3600,
    issuer: origin,
    published: true,
  });
  const owned = disposables.move();
  const listed: ListedConnection = {
    home,
    origin,
    list,
    url,
    options,
    host,
    connections,
    asked,
    answer: { status: 404, body: {} },
    write,
    async share(name) {
      const connection = await connections.own(name);
      if (!connection || !signsIn(connection)) throw new Error(`no connection ${name}`);
      const account = await host.account(connection, options);
      const signedIn = { obtainedAt: now, issuer: origin, published: true };
      await account.vault.save({ ...signedIn, accessToken: 'token', renewedBy: list });
      await account.marks.rememberSignedIn();
    },
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
  return listed;
}
