// One of the servers of a person becomes a connection, for the command `setup` and for the tray app.
import { OAuthError, TokenError } from '#auth/errors';
import type { Connection } from '#config/connection';
import type { ConnectedServer } from './accounts-service.ts';
import type { CompanyServers } from './company-servers.ts';
import type { Connections } from './connections.ts';
import type { MyServer } from './my-servers.ts';

/**
 * The connection to a server: the one there is, or a new one that shares the sign-in of its list.
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
  // A key or a sign-in of its own goes on.
  if (existing && (await hasCredential(existing, connections)))
    return { name: existing.name, server, isNew: false };
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
    if (existing && (await hasCredential(existing, connections))) {
      connected.push({ name: existing.name, server, isNew: false });
      continue;
    }
    const name = existing?.name ?? (await connections.freeName(url));
    const made = existing ?? (await connections.describe({ name, url, as: 'person' }));
    const problem = await problemOf(async () => connections.joinCompany(made));
    connected.push({ name, server, isNew: !existing, ...problem });
  }
  return connected.every((one) => one.problem !== undefined) ? undefined : connected;
}

/** Why a server was not connected, if the person or an administrator can mend it. */
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

async function hasCredential(connection: Connection, connections: Connections): Promise<boolean> {
  if (connection.credentials.kind !== 'authorization_code')
    return connections.hasSecrets(connection);
  return connections.isSignedIn(connection);
}
