import { findClient } from '#db/clients';
import {
  findBundle,
  listBundledGrants,
  listBundleOrganizations,
  type BundledGrant,
} from '#db/grant-bundles';
import { findUser } from '#db/people';
import { findOrganization } from '#db/organizations';
import { isAccessTokenRevoked } from '#db/revoked-tokens';
import { mayUseServer } from '#db/server-access';
import type { PersonalCredential } from '#db/upstream-connections';
import { formatScopes } from '#model/scopes';
import { serverListUrl } from '#model/server-list';
import { parseServerPath, partsOf } from '#model/slug';
import type { AccessTokenClaims, AccessTokens } from './access-tokens.ts';
import { catalogueOf, type AskableServer, type CataloguedServer } from './catalogue.ts';
import type { ClientContext } from './client-authentication.ts';
import { ownClientDocument } from './client-documents.ts';
import { permittedScopes } from './permitted-scopes.ts';
import { isOwnComputer } from './redirect-uris.ts';

/** The most servers that a program may ask about by their URLs. */
const mostKnown = 50;
/** The most uses of a server in the list. */
const mostUses = 20;

export interface ServerListPorts extends ClientContext {
  readonly tokens: AccessTokens;
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
  /** The scopes that an access token for it has now; absent if it was not chosen. */
  readonly scope?: string;
  /** Whether calls need an account or a key of the person there, which they have not connected or entered. */
  readonly needs_account: boolean;
  /** Whether that is an account or a key. */
  readonly account_kind?: PersonalCredential;
  /** The page on which they connect or enter it. */
  readonly account_url?: string;
  /** The applications that use it for the person now, on all their devices. */
  readonly uses: readonly ListedUse[];
}

/** An application that acts for the person at a server. */
interface ListedUse {
  readonly application: string;
  readonly assistant?: string;
  /** `current`: the request came from this device. */
  readonly device?: { readonly name: string; readonly system: string; readonly current: boolean };
}

/** A server that a person cannot use, but may ask for. */
interface ListedAskable extends Pick<
  ListedServer,
  'organization' | 'organization_title' | 'name' | 'title' | 'description'
> {
  /** The page on which they ask, or see the answer. */
  readonly ask_url: string;
  /** Their newest request, while it is open or if it was declined. */
  readonly request?: {
    readonly status: 'open' | 'declined';
    readonly asked_at: number;
    readonly answer: string;
  };
}

export interface ServerList {
  /** The person's e-mail address, for a program on their own computer. */
  readonly signed_in_as?: string;
  readonly servers: readonly ListedServer[];
  readonly askable: readonly ListedAskable[];
  /**
   * The URLs in the request whose server is withdrawn: the person has no access any more, or there is no such server, which is deliberately
   * not distinguished. Not listed are servers that are only disabled, and those of an organization in which the person never chose any,
   * because their sign-in may not open that organization.
   */
  readonly withdrawn: readonly string[];
}

/** Whether the list of servers would accept this token now. */
export async function isListAdmitted(
  { id, audience, grantId, clientId, subject }: AccessTokenClaims,
  ports: ClientContext,
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

/** A client that presented a token for the list, and the grants that the person gave it together. */
export interface ListReader {
  readonly bundleId: string;
  readonly userId: string;
  readonly clientId: string;
  readonly grants: readonly BundledGrant[];
}

/** `undefined` unless a valid token for the list was sent. */
export async function listReader(
  authorization: string | undefined,
  ports: ServerListPorts,
): Promise<ListReader | undefined> {
  const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return undefined;
  const verdict = await ports.tokens.verify(token);
  if (verdict.outcome === 'invalid' || !(await isListAdmitted(verdict.claims, ports))) {
    return undefined;
  }
  const { subject: userId, clientId, grantId = '' } = verdict.claims;
  const grants = await listBundledGrants(ports.db, grantId);
  return { bundleId: grantId, userId, clientId, grants };
}

/**
 * `GET /api/my/servers`: the servers that the person may use, in the organizations in which they chose at least one. Other organizations
 * are left out, because they may require another way of signing in than the person used. `undefined` unless a token for this list was sent.
 * `known` are URLs of servers that the program knows: the answer says which of them are withdrawn. A server that is not in the list is not
 * necessarily withdrawn.
 */
export async function serverList(
  authorization: string | undefined,
  known: readonly string[],
  ports: ServerListPorts,
): Promise<ServerList | undefined> {
  const { db } = ports;
  const reader = await listReader(authorization, ports);
  if (!reader) return undefined;
  const { userId, clientId, grants } = reader;
  const [client, user] = await Promise.all([findClient(db, clientId), findUser(db, userId)]);
  const [first] = grants;
  if (!client || !user || !first) return undefined;
  const of = { userId, client, grants };
  const lists: Awaited<ReturnType<typeof listIn>>[] = [];
  const organizations = new Set(grants.map(({ serverPath }) => partsOf(serverPath).organization));
  for (const organization of organizations) {
    lists.push(await listIn(organization, of, ports));
  }
  return {
    ...(isOwnComputer(first.redirectHost) && { signed_in_as: user.email }),
    servers: lists.flatMap(({ servers }) => servers),
    askable: lists.flatMap(({ askable }) => askable),
    withdrawn: await withdrawnOf(known, reader, ports),
  };
}

async function withdrawnOf(
  known: readonly string[],
  { userId, bundleId }: ListReader,
  { base, db }: ServerListPorts,
): Promise<readonly string[]> {
  const endpoints = `${base}/mcp/`;
  const chosenIn = known.length > 0 ? await listBundleOrganizations(db, bundleId) : new Set();
  const withdrawn: string[] = [];
  for (const url of new Set(known.slice(0, mostKnown))) {
    if (!url.startsWith(endpoints)) continue;
    const path = url.slice(endpoints.length);
    const place = parseServerPath(path);
    // URLs that name no server, and servers of other organizations, are left out.
    if (!place || !chosenIn.has(place.organization)) continue;
    if (!(await mayUseServer(db, userId, path))) withdrawn.push(url);
  }
  return withdrawn;
}

interface Reading extends Pick<ListReader, 'userId' | 'grants'> {
  readonly client: NonNullable<Awaited<ReturnType<typeof findClient>>>;
}

async function listIn(
  organization: string,
  { userId, client, grants }: Reading,
  { base, db, clock }: ServerListPorts,
): Promise<{ servers: ListedServer[]; askable: ListedAskable[] }> {
  const found = await findOrganization(db, organization);
  if (!found) return { servers: [], askable: [] };
  const at = { organization, organization_title: found.title ?? '' };
  const catalogue = await catalogueOf(userId, found, { db, clock });
  const device = grants[0]?.device?.id;
  // Other applications do not learn what else the person uses.
  const isOurs = client.id === ownClientDocument(base).client_id;
  const servers: ListedServer[] = [];
  for (const server of catalogue.servers) {
    const grant = grants.find(({ serverPath }) => serverPath === server.path);
    const scopes = grant?.scopes ?? client.scopes;
    const of = { userId, serverPath: server.path, client };
    const permitted = await permittedScopes(scopes, of, { db });
    if (permitted.outcome !== 'permitted') continue;
    servers.push({
      resource: `${base}/mcp/${server.path}`,
      ...at,
      name: server.name,
      title: server.title,
      description: server.description,
      granted: grant !== undefined,
      ...(grant && { scope: formatScopes(permitted.scopes) }),
      needs_account: server.missing !== undefined,
      ...(server.missing && {
        account_kind: server.missing,
        account_url: `${base}/dashboard/${organization}/servers/${server.name}/account`,
      }),
      uses: isOurs ? usesOf(server, device) : [],
    });
  }
  const askable = catalogue.askable.map((server) => {
    const { name, title, description } = server;
    const url = `${base}/dashboard/${organization}/my-servers`;
    const listed = { name, title, description, ask_url: url };
    return Object.assign(listed, at, requestOf(server));
  });
  return { servers, askable };
}

function requestOf({ request }: AskableServer): Pick<ListedAskable, 'request'> {
  if (request?.status !== 'open' && request?.status !== 'declined') return {};
  const { status, createdAt, answer } = request;
  return { request: { status, asked_at: createdAt, answer } };
}

/** Lists each application once for each device. */
function usesOf({ grants }: CataloguedServer, current: string | undefined): readonly ListedUse[] {
  const uses = grants.map(({ clientName: application, assistant, device }) => ({
    application,
    ...(assistant !== undefined && { assistant }),
    ...(device && {
      device: { name: device.name, system: device.system, current: device.id === current },
    }),
  }));
  return [...new Map(uses.map((use) => [JSON.stringify(use), use])).values()].slice(0, mostUses);
}
