import { type JsonObject } from 'latchkey-mcp/json-value';
import type { HttpClient } from '#transport/http-client';
import type { OAuthSettings } from '#config/oauth-fields';
import { innerOf, mayName, networkOfHost, type Network } from '#transport/networks';
import { webUrl } from '#transport/web-url';
import { OAuthError } from './errors.ts';
import { fetchJson, notAsked } from './fetch-json.ts';

/** Everything that has to be known before asking for a token. */
export type Discovery = AuthorizationServer & {
  /** RFC 8707's `resource` parameter; none is sent when empty. */
  resource: string;
  /** What the resource's challenge asked for. RFC 6750 §3 */
  challengedScopes?: string[];
  scopesSupported?: string[];
  /** Whether the resource published metadata; once it did, the unpublished paths are closed. */
  published: boolean;
};

export type DiscoverOptions = {
  /** The server's URL, exactly as configured. */
  url: string;
  /** The `WWW-Authenticate` header of its 401, when there was one. */
  challenge?: string;
  /** Of these: the issuer that the user insists on, and what is to be sent instead of what the server says. */
  credentials?: OAuthSettings;
  /** What is known from earlier: whether the resource published metadata then. */
  publishedBefore: boolean;
};

/**
 * Finds the authorization server of an MCP server. A resource that never published metadata has
 * its authorization server under its own origin, if need be at the unpublished paths.
 *
 * RFC 9728 §5, RFC 8414 §3
 *
 * @throws {OAuthError}
 */
export async function discover(options: DiscoverOptions, http: HttpClient): Promise<Discovery> {
  const { credentials = {} } = options;
  const discovery = await discoverServer(options, http);
  const { resource = discovery.resource } = credentials;
  return { ...discovery, resource };
}

async function discoverServer(
  { url: configured, challenge, credentials = {}, publishedBefore }: DiscoverOptions,
  http: HttpClient,
): Promise<Discovery> {
  const { issuer } = credentials;
  const url = new URL(configured);
  const asked =
    challenge === undefined ? await askForChallenge(url, http) : parseChallenge(challenge);
  const network = await networkOfServer(url, http);
  const challengedScopes = asked.scope?.split(/\s+/).filter(Boolean);
  const challenged = challengedScopes?.length ? { challengedScopes } : {};
  const resource = await protectedResource(url, asked, network, http);
  if (!resource) {
    if (publishedBefore)
      throw new OAuthError('metadata', `${configured} no longer publishes its metadata`, {
        endpoint: configured,
      });
    const own = await ownServer(url, { issuer, network }, http);
    return { ...own, ...challenged, resource: configured, published: false };
  }
  const { authorizationServers, scopesSupported } = resource;
  const chosen = issuer ?? authorizationServers[0] ?? url.origin;
  if (!authorizationServers.includes(chosen))
    throw new OAuthError(
      'issuer',
      `${configured} trusts ${authorizationServers.join(', ')}, not the configured issuer ${chosen}`,
      { endpoint: configured },
    );
  const named = { issuer: chosen, network, chosen: issuer !== undefined };
  const server = await authorizationServer(named, http);
  if (!server)
    throw new OAuthError('metadata', `${chosen} does not publish authorization server metadata`, {
      endpoint: chosen,
    });
  return {
    ...server,
    ...challenged,
    resource: resource.resource,
    ...(scopesSupported && { scopesSupported }),
    published: true,
  };
}

async function ownServer(
  url: URL,
  { issuer, network }: { issuer: string | undefined; network: Network },
  http: HttpClient,
): Promise<AuthorizationServer> {
  const chosen = issuer ?? url.origin;
  // The default is the origin of the server itself, whose URL the user chose.
  const published = await authorizationServer({ issuer: chosen, network, chosen: true }, http);
  if (published) return published;
  if (new URL(chosen).origin !== url.origin)
    throw new OAuthError('metadata', `${chosen} does not publish authorization server metadata`, {
      endpoint: chosen,
    });
  return {
    issuer: chosen,
    authorizationEndpoint: `${url.origin}/oauth/consent`,
    tokenEndpoint: `${url.origin}/api/oauth/token`,
    tokenEndpointAuthMethods: ['client_secret_post', 'none'],
    revocationEndpoint: `${url.origin}/api/oauth/revoke`,
    takesS256: true,
    sendsIssuer: false,
    takesMetadataUrls: false,
    within: network,
  };
}

/** Where the server is: what it names may be there too, and further outside. */
async function networkOfServer(url: URL, http: HttpClient): Promise<Network> {
  const known = await http.networkOf(url);
  if (known !== undefined) return known;
  await askForChallenge(url, http);
  return (await http.networkOf(url)) ?? 'public';
}

/** A ping without a credential changes nothing and makes a guarded resource say who guards it. */
async function askForChallenge(url: URL, http: HttpClient): Promise<Challenge> {
  const { status, headers } = await fetchJson(http, {
    url,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: Buffer.from('{"jsonrpc":"2.0","id":"latchkey","method":"ping"}'),
  });
  return status === 401 ? parseChallenge(headers['www-authenticate']) : {};
}

/** What a resource asks for with a 401 or 403. RFC 6750 §3, RFC 9728 §5.1 */
export type Challenge = {
  resourceMetadata?: string;
  scope?: string;
  error?: string;
};

const parameter = /([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi;

/** The Bearer challenge of a `WWW-Authenticate` header, which may hold other schemes besides. */
export function parseChallenge(header: string | undefined): Challenge {
  const [, bearer] = /(?:^|[\s,])bearer\s+(.*)$/is.exec(header ?? '') ?? [];
  const challenge: Challenge = {};
  for (const [, name, quoted, plain] of (bearer ?? '').matchAll(parameter)) {
    const value = quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '';
    if (name === 'resource_metadata') challenge.resourceMetadata ??= value;
    if (name === 'scope') challenge.scope ??= value;
    if (name === 'error') challenge.error ??= value;
  }
  return challenge;
}

/** Who guards a resource, as the resource itself tells. RFC 9728 §2 */
export type ProtectedResource = {
  /** Its name for itself, byte for byte what RFC 8707's `resource` has to be. */
  resource: string;
  authorizationServers: string[];
  scopesSupported?: string[];
};

/**
 * The metadata of the resource at `url`, which is in the network `within`: from where its challenge says, then
 * from the path form, then from the root form. `undefined` when it never published any.
 *
 * RFC 9728 §3, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function protectedResource(
  url: URL,
  challenge: Challenge,
  within: Network,
  http: HttpClient,
): Promise<ProtectedResource | undefined> {
  if (challenge.resourceMetadata !== undefined) {
    const announced = webUrl(challenge.resourceMetadata);
    const endpoint = challenge.resourceMetadata;
    if (!announced) throw new OAuthError('metadata', `${endpoint} is not a safe URL`, { endpoint });
    const document = await metadataAt({ url: announced, within }, http);
    if (!document)
      throw new OAuthError('metadata', `${endpoint} contains no metadata`, { endpoint });
    return readResourceMetadata(document, url, announced);
  }
  const wellKnown = '/.well-known/oauth-protected-resource';
  const path = url.pathname === '/' ? '' : url.pathname;
  const forms = new Set([`${wellKnown}${path}${url.search}`, wellKnown]);
  for (const form of forms) {
    const guessed = new URL(form, url.origin);
    const document = await metadataAt({ url: guessed }, http);
    if (document && typeof document['resource'] === 'string')
      return readResourceMetadata(document, url, guessed);
  }
  return undefined;
}

async function metadataAt(
  place: { url: URL; within?: Network },
  http: HttpClient,
): Promise<JsonObject | undefined> {
  const answer = await fetchJson(http, {
    ...place,
    method: 'GET',
    headers: { accept: 'application/json' },
  });
  const endpoint = place.url.href;
  // "Not there" opens the way to other documents, so a server in trouble must not count as that.
  if (answer.status >= 500 || answer.status === 429)
    throw new OAuthError('unreachable', `${endpoint} answered ${answer.status}`, {
      endpoint,
      status: answer.status,
    });
  return answer.status === 200 ? answer.json : undefined;
}

function readResourceMetadata(document: JsonObject, url: URL, from: URL): ProtectedResource {
  const endpoint = from.href;
  const { resource, authorization_servers: servers, scopes_supported: scopes } = document;
  if (typeof resource !== 'string' || !covers(resource, url))
    throw new OAuthError('metadata', `${endpoint} describes ${String(resource)}, not ${url.href}`, {
      endpoint,
    });
  const authorizationServers = stringsOf(servers);
  if (authorizationServers.length === 0)
    throw new OAuthError('metadata', `${endpoint} announces no authorization server`, { endpoint });
  return {
    resource,
    authorizationServers,
    ...(Array.isArray(scopes) && { scopesSupported: stringsOf(scopes) }),
  };
}

/** A resource may describe itself, or a whole tree of paths that it serves. */
function covers(resource: string, url: URL): boolean {
  const described = URL.parse(resource);
  if (described?.origin !== url.origin) return false;
  const tree = described.pathname.endsWith('/') ? described.pathname : `${described.pathname}/`;
  return `${url.pathname}/`.startsWith(tree);
}

function stringsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

/** Where an authorization server does what. RFC 8414 §2 */
export type AuthorizationServer = {
  issuer: string;
  tokenEndpoint: string;
  tokenEndpointAuthMethods: string[];
  authorizationEndpoint?: string;
  registrationEndpoint?: string;
  revocationEndpoint?: string;
  /** Tells whose an access token is. OpenID Connect Core 1.0 §5.3 */
  userinfoEndpoint?: string;
  /** Whether it announces PKCE with S256. RFC 7636 §4.2 */
  takesS256: boolean;
  /** Whether every authorization response carries `iss`. RFC 9207 §3 */
  sendsIssuer: boolean;
  /** Whether an https URL may be a client id. OAuth Client ID Metadata Document §5 */
  takesMetadataUrls: boolean;
  serverScopesSupported?: string[];
  /** Nothing that its metadata names is asked further inside than this. */
  within: Network;
};

/** Who names an authorization server, and from where. */
export type IssuerInput = {
  issuer: string;
  /** The network of the resource that names it. */
  network: Network;
  /** Whether the user named it, so that it may be anywhere. */
  chosen: boolean;
};

/** RFC 8414 §2: what a server accepts that does not say. */
const defaultAuthMethods = ['client_secret_basic'];

/**
 * The metadata of `issuer`, which must call itself exactly that. `undefined` when it publishes none.
 * A resource elsewhere can point us neither at this machine nor into a private network.
 *
 * RFC 8414 §3, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function authorizationServer(
  { issuer, network, chosen }: IssuerInput,
  http: HttpClient,
): Promise<AuthorizationServer | undefined> {
  const base = safeUrl(issuer, chosen ? 'loopback' : network, issuer);
  for (const url of metadataUrls(base)) {
    const answer = await fetchJson(http, {
      url,
      ...(!chosen && { within: network }),
      method: 'GET',
      headers: { accept: 'application/json' },
    });
    const { status, json } = answer;
    const endpoint = url.href;
    if (status >= 500 || status === 429)
      throw new OAuthError('unreachable', `${endpoint} answered ${status}`, { endpoint, status });
    if (status === 200 && json && 'issuer' in json)
      return readServerMetadata(json, issuer, await withinOf(base, network, chosen, http), url);
  }
  return undefined;
}

/** What the user chose may name what is beside it. */
async function withinOf(
  base: URL,
  network: Network,
  chosen: boolean,
  http: HttpClient,
): Promise<Network> {
  const own = chosen ? await http.networkOf(base) : undefined;
  return own === undefined ? network : innerOf(own, network);
}

function metadataUrls(base: URL): URL[] {
  const path = base.pathname.replace(/\/$/, '');
  const forms = [
    `/.well-known/oauth-authorization-server${path}`,
    `/.well-known/openid-configuration${path}`,
    ...(path ? [`${path}/.well-known/openid-configuration`] : []),
  ];
  return forms.map((form) => new URL(form, base.origin));
}

function readServerMetadata(
  document: JsonObject,
  issuer: string,
  within: Network,
  from: URL,
): AuthorizationServer {
  const endpoint = from.href;
  if (document['issuer'] !== issuer)
    throw new OAuthError(
      'issuer',
      `${endpoint} calls itself ${JSON.stringify(document['issuer'])}, not ${issuer}`,
      { endpoint },
    );
  const tokenEndpoint = document['token_endpoint'];
  if (typeof tokenEndpoint !== 'string')
    throw new OAuthError('metadata', `${endpoint} announces no token endpoint`, { endpoint });
  safeUrl(tokenEndpoint, within, endpoint);
  const optional = (name: string) => {
    const value = document[name];
    return typeof value === 'string' ? safeUrl(value, within, endpoint) && value : undefined;
  };
  const authorizationEndpoint = optional('authorization_endpoint');
  const registrationEndpoint = optional('registration_endpoint');
  const revocationEndpoint = optional('revocation_endpoint');
  const userinfoEndpoint = optional('userinfo_endpoint');
  const serverScopesSupported = strings(document['scopes_supported']);
  return {
    issuer,
    tokenEndpoint,
    tokenEndpointAuthMethods:
      strings(document['token_endpoint_auth_methods_supported']) ?? defaultAuthMethods,
    ...(authorizationEndpoint !== undefined && { authorizationEndpoint }),
    ...(registrationEndpoint !== undefined && { registrationEndpoint }),
    ...(revocationEndpoint !== undefined && { revocationEndpoint }),
    ...(userinfoEndpoint !== undefined && { userinfoEndpoint }),
    takesS256: strings(document['code_challenge_methods_supported'])?.includes('S256') ?? false,
    sendsIssuer: document['authorization_response_iss_parameter_supported'] === true,
    takesMetadataUrls: document['client_id_metadata_document_supported'] === true,
    ...(serverScopesSupported && { serverScopesSupported }),
    within,
  };
}

function strings(value: unknown): string[] | undefined {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : undefined;
}

/** `text` as a URL that a server in the network `within` may name; the addresses of its host are checked at the request. */
function safeUrl(text: string, within: Network, endpoint: string): URL {
  const url = webUrl(text);
  if (!url || (url.protocol !== 'https:' && within !== 'loopback'))
    throw new OAuthError('metadata', `${JSON.stringify(text)} is not an https URL`, { endpoint });
  const network = networkOfHost(url.hostname);
  if (network !== undefined && !mayName(within, network)) {
    const where = network === 'loopback' ? 'this machine' : 'a private network';
    throw new OAuthError('metadata', notAsked(url.href, `${url.hostname} is on ${where}`), {
      endpoint,
    });
  }
  return url;
}
