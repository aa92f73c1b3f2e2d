// The servers of one Latchkey server to which the person can sign in without a page, because they are signed in at the company's provider.
// This computer knows these servers from its own connections, and from the files that name providers.
import { signsIn } from '#auth/account';
import { accountStatus } from '#auth/account-status';
import { OAuthError } from '#auth/errors';
import type { Connection } from '#config/connection';
import { learnedFile, managedFile, serversNamedIn } from '#config/provider-files';
import { isWithin } from '#transport/web-url';
import { companyOf, type StoredSignIns } from './company-sign-in.ts';
import type { BoundHost } from './connections-host.ts';
import { endpointOf } from './list-url.ts';
import type { MyServer } from './my-servers.ts';
import type { Described } from './new-connection.ts';
import { addConnection, registeredConnections, removeConnection } from './registry.ts';

/** Servers of a person's company, and the sign-in that opens them. */
export type CompanyServers = {
  issuer: string;
  /** The account, if the provider names it. */
  signedInAs?: string;
  servers: readonly MyServer[];
};

/**
 * The servers below a URL for which this computer has a company sign-in. Contacts no server, so a server may still refuse the sign-in.
 * `undefined` if there are none, or the person is not signed in at the provider.
 */
export async function companyServers(
  below: string,
  host: BoundHost,
): Promise<CompanyServers | undefined> {
  const own: Connection[] = [];
  for await (const one of registeredConnections(host)) own.push(one);
  const files = [managedFile(host), learnedFile(host.stateDirectory)];
  const named = (await Promise.all(files.map(serversNamedIn))).flat();
  const connections = [...own, ...named.map(unregistered)].filter(
    ({ url }) => isWithin(url, below) && endpointOf(url) !== undefined,
  );
  const stored: StoredSignIns = new Map();
  const servers = new Map<string, MyServer>();
  let by: Omit<CompanyServers, 'servers'> | undefined;
  for (const connection of connections) {
    const { url } = connection;
    if (!signsIn(connection) || servers.has(url)) continue;
    const account = await host.account(connection);
    const status = await accountStatus(connection, account, host.clock.now());
    const company = await companyOf(connection, status, stored, host);
    if (!company?.signedIn) continue;
    const { issuer, signedInAs } = company;
    by ??= { issuer, ...(signedInAs !== undefined && { signedInAs }) };
    servers.set(url, serverAt(url));
  }
  return by && { ...by, servers: [...servers.values()] };
}

function unregistered(url: string): Connection {
  return { name: url, url, source: url, credentials: { kind: 'authorization_code' } };
}

/** The view of a server of which only the URL is known. */
function serverAt(url: string): MyServer {
  const [organization = '', name = ''] = endpointOf(url) ?? [];
  const unknown = { organizationTitle: '', description: '', uses: [] };
  return { url, organization, name, title: name, isGranted: true, ...unknown };
}

/**
 * Gets a token for a connection of our own with the company sign-in, without a page.
 *
 * @throws {TokenError} `signed_out` if the person has to sign in at the provider
 * @throws {OAuthError} `refused` if they get no access, or the server supports no company sign-in
 */
export async function joinCompany(connection: Connection, host: BoundHost): Promise<void> {
  if (!signsIn(connection)) return;
  const { name, url } = connection;
  const account = await host.account(connection);
  const provider = await account.provider();
  const { joinSignIn } = await import('#auth/managed-authorization');
  if (provider && (await joinSignIn(account, provider))) return;
  const remedy = `run latchkey login ${name}`;
  throw new OAuthError('refused', `${url} takes no company sign-in`, { endpoint: url, remedy });
}

/** Adds a connection that the company sign-in opens. One that gets no token is not added. @throws as {@link joinCompany} does */
export async function addByCompany(
  { connection, secrets }: Described,
  host: BoundHost,
): Promise<void> {
  await addConnection(connection, secrets, { replace: false, check: false }, host);
  try {
    await joinCompany(connection, host);
  } catch (error) {
    await removeConnection(connection.name, host);
    throw error;
  }
}
