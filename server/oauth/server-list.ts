import { findClient } from '#db/clients';
import { findBundle, listBundledGrants, type BundledGrant } from '#db/grant-bundles';
import { findUser } from '#db/people';
import { findOrganization } from '#db/organizations';
import { isAccessTokenRevoked } from '#db/revoked-tokens';
import { listUsableServers } from '#db/server-access';
import type { Db } from '#db/transaction';
import { listMissingAccounts } from '#db/upstream-connections';
import type { Clock } from '#model/clock';
import { formatScopes } from '#model/scopes';
import { serverListUrl } from '#model/server-list';
import type { AccessTokenClaims, AccessTokens } from './access-tokens.ts';
import { permittedScopes } from './permitted-scopes.ts';
import { isOwnComputer } from './redirect-uris.ts';

/** The most servers of an organization in the list. */
const mostListed = 100;

export interface ServerListPorts {
  readonly base: string;
  readonly tokens: AccessTokens;
  readonly db: Db;
  readonly clock: Clock;
}

/** A server that a person may use. */
export interface ListedServer {
  /** The URL of its MCP endpoint, to name in token requests. */
  readonly resource: string;
  readonly organization: string;
  readonly organization_title: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** Whether the person chose it: the refresh token gets access tokens for it. */
  readonly granted: boolean;
  /** What an access token for it may do now; absent if it was not chosen. */
  readonly scope?: string;
  /** Whether calls need an account of the person there, which they have not connected. */
  readonly needs_account: boolean;
  /** The page on which they connect it. */
  readonly account_url?: string;
}

export interface ServerList {
  /** The person's e-mail address, for a program on their own computer. */
  readonly signed_in_as?: string;
  readonly servers: readonly ListedServer[];
}

/** Whether the list of servers would accept this token now. */
export async function isListAdmitted(
  { id, audience, grantId, clientId, subject }: AccessTokenClaims,
  ports: Pick<ServerListPorts, 'base' | 'db' | 'clock'>,
): Promise<boolean> {
  const { base, db, clock } = ports;
  if (audience !== serverListUrl(base) || grantId === undefined) return false;
  const bundle = await findBundle(db, grantId);
  if (!bundle?.listsServers || bundle.revokedAt !== undefined) return false;
  if (bundle.clientId !== clientId || bundle.userId !== subject) return false;
  if (bundle.expiresAt <= clock.now() || (await isAccessTokenRevoked(db, id))) return false;
  const client = await findClient(db, clientId);
  if (!client || client.revokedAt !== undefined || client.isSuspended) return false;
  return (await listBundledGrants(db, grantId)).length > 0;
}

/**
 * `GET /api/my/servers`: the servers that the person may use, in the organizations in which they chose at least one. An organization
 * may require a way of signing in, which the person proved only where they chose something. `undefined` unless a token for this list
 * was sent.
 */
export async function serverList(
  authorization: string | undefined,
  ports: ServerListPorts,
): Promise<ServerList | undefined> {
  const { tokens, db } = ports;
  const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return undefined;
  const verdict = await tokens.verify(token);
  if (verdict.outcome === 'invalid' || !(await isListAdmitted(verdict.claims, ports))) {
    return undefined;
  }
  const { subject: userId, clientId, grantId = '' } = verdict.claims;
  const [client, user] = await Promise.all([findClient(db, clientId), findUser(db, userId)]);
  const grants = await listBundledGrants(db, grantId);
  const [first] = grants;
  if (!client || !user || !first) return undefined;
  const byPath = new Map(grants.map((grant) => [grant.serverPath, grant]));
  const servers: ListedServer[] = [];
  for (const organization of new Set(grants.map(({ serverPath }) => pathParts(serverPath)[0]))) {
    servers.push(...(await serversIn(organization, { userId, client, byPath }, ports)));
  }
  return {
    ...(isOwnComputer(first.redirectHost) && { signed_in_as: user.email }),
    servers,
  };
}

async function serversIn(
  organization: string,
  {
    userId,
    client,
    byPath,
  }: {
    readonly userId: string;
    readonly client: NonNullable<Awaited<ReturnType<typeof findClient>>>;
    readonly byPath: ReadonlyMap<string, BundledGrant>;
  },
  { base, db }: ServerListPorts,
): Promise<ListedServer[]> {
  const title = (await findOrganization(db, organization))?.title ?? '';
  const usable = await listUsableServers(db, userId, organization, mostListed);
  const ids = usable.map(({ id }) => id);
  const missing = new Set(await listMissingAccounts(db, userId, ids));
  const listed: ListedServer[] = [];
  for (const server of usable) {
    const serverPath = `${organization}/${server.name}`;
    const grant = byPath.get(serverPath);
    const scopes = grant?.scopes ?? client.scopes;
    const permitted = await permittedScopes(scopes, { userId, serverPath, client }, { db });
    if (permitted.outcome !== 'permitted') continue;
    const needsAccount = missing.has(server.id);
    listed.push({
      resource: `${base}/mcp/${serverPath}`,
      organization,
      organization_title: title,
      name: server.name,
      title: server.title,
      description: server.description,
      granted: grant !== undefined,
      ...(grant && { scope: formatScopes(permitted.scopes) }),
      needs_account: needsAccount,
      ...(needsAccount && {
        account_url: `${base}/dashboard/${organization}/servers/${server.name}/account`,
      }),
    });
  }
  return listed;
}

function pathParts(serverPath: string): [string, string] {
  const [organization = '', server = ''] = serverPath.split('/');
  return [organization, server];
}
