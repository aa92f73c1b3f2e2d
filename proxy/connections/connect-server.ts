// Turns a server of a person into a connection, for the command `setup` and for the tray app.
import { OAuthError, TokenError } from '#auth/errors';
import type { Connection } from '#config/connection';
import { UpstreamError } from '#transport/upstream';
import type { ConnectedServer, KeptKey } from './accounts-service.ts';
import type { CompanyServers } from './company-servers.ts';
import type { Connections } from './connections.ts';
import type { MyServer } from './my-servers.ts';

/**
 * Keeps the connection to a server if it needs no new sign-in. Otherwise, lets it or a new one share the sign-in of the list.
 *
 * @throws {OAuthError} `unreachable`
 */
export async function connectServer(
  server: MyServer,
  list: string,
  connections: Connections,
): Promise<ConnectedServer> {
  const { url } = server;
  const existing = await connections.ownFor(url);
  const kept = existing && (await keptServer(existing, server, connections));
  if (kept) {
    await connections.noteChosen(url, list);
    return kept;
  }
  const name = existing?.name ?? (await connections.freeName(url));
  if (!existing) {
    const described = await connections.describe({ name, url, as: 'person' });
    await connections.add(described, { replace: false, check: false });
  }
  const made = await connections.own(name);
  const problem = await problemOf(async () => made && connections.joinServerList(made, list));
  return { name, server, isNew: !existing, ...problem };
}

/**
 * Connects the servers that the company sign-in opens. `undefined` if it opens none of them, so that the person has to sign in.
 *
 * @throws {OAuthError} `unreachable`
 */
export async function connectCompanyServers(
  { servers }: CompanyServers,
  connections: Connections,
): Promise<readonly ConnectedServer[] | undefined> {
  const connected: ConnectedServer[] = [];
  for (const server of servers) {
    const { url } = server;
    const existing = await connections.ownFor(url);
    const kept = existing && (await keptServer(existing, server, connections));
    if (kept) {
      connected.push(kept);
      continue;
    }
    const name = existing?.name ?? (await connections.freeName(url));
    const made = existing ?? (await connections.describe({ name, url, as: 'person' }));
    const problem = await problemOf(async () => connections.joinCompany(made));
    connected.push({ name, server, isNew: !existing, ...problem });
  }
  return connected.every((one) => one.problem !== undefined) ? undefined : connected;
}

/** Why a server was not connected, if the person or an administrator can fix the problem. */
async function problemOf(join: () => Promise<void> | undefined): Promise<{ problem?: string }> {
  try {
    await join();
    return {};
  } catch (error) {
    if (!(error instanceof TokenError || error instanceof OAuthError)) throw error;
    if (error instanceof OAuthError && error.code === 'unreachable') throw error;
    return { problem: error.message };
  }
}

/** An existing connection that continues to use its key or its own sign-in; `undefined` if it needs a new sign-in. */
async function keptServer(
  connection: Connection,
  server: MyServer,
  connections: Connections,
): Promise<ConnectedServer | undefined> {
  const { name, credentials } = connection;
  const kept = { name, server, isNew: false };
  if (credentials.kind === 'authorization_code')
    return (await connections.isSignedIn(connection)) ? kept : undefined;
  if (credentials.kind === 'client_credentials') return kept;
  const keptKey = await stateOfKey(connection, connections);
  if (keptKey === 'in_use') return { ...kept, keptKey };
  return { ...kept, keptKey, problem: keyProblem(name, keptKey) };
}

async function stateOfKey(connection: Connection, connections: Connections): Promise<KeptKey> {
  if (!(await connections.hasSecrets(connection))) return 'missing';
  try {
    await connections.check(connection);
  } catch (error) {
    if (isRejectedKey(error, connection)) return 'rejected';
    if (!(error instanceof UpstreamError)) throw error;
  }
  return 'in_use';
}

/** Whether the error of a check says that the server rejected the API key of the connection. */
export function isRejectedKey(error: unknown, { credentials }: Connection): boolean {
  const isRejected = error instanceof UpstreamError && error.code === 'unauthorized';
  return isRejected && credentials.kind === 'api_key';
}

export function keyProblem(name: string, key: 'rejected' | 'missing'): string {
  return key === 'rejected'
    ? `the connection ${name} uses an API key, and the server rejected it`
    : `the connection ${name} uses an API key, which is not in the keychain`;
}
