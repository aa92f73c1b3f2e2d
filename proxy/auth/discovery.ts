import { type JsonObject } from 'latchkey-mcp/json-value';
import type { HttpClient } from '#transport/http-client';
import { requestParameters, type OAuthSettings } from '#config/oauth-fields';
import { innerOf, mayName, networkOfHost, type Network } from '#transport/networks';
import { isWithin, webUrl } from '#transport/web-url';
import { OAuthError } from './errors.ts';
import { fetchJson, refusedUrl } from './fetch-json.ts';

/** The facts about a server that a token request needs. */
export type Discovery = AuthorizationServer & {
  /** Parameters of authorization and token requests: `resource` of RFC 8707, and the configured parameters. */
  parameters: Readonly<Record<string, string>>;
  /** The scopes in the challenge of the resource. RFC 6750 §3 */
  challengedScopes?: string[];
  scopesSupported?: string[];
  /** Whether the resource published metadata. Once it has, the default endpoints are no longer used. */
  published: boolean;
};

export type DiscoverOptions = {
  /** The server's URL, exactly as configured. */
  url: string;
  /** The `WWW-Authenticate` header of its 401 response, if there was one. */
  challenge?: string | undefined;
  /** Settings that override what the server announces, such as the issuer. */
  credentials?: OAuthSettings;
  /** Whether the resource has published metadata before. */
  publishedBefore: boolean;
};

/**
 * Finds the authorization server of an MCP server. If the resource has never published metadata, its origin is the default
 * issuer. If that origin has no issuer metadata either, the endpoints have their default paths.
 *
 * RFC 9728 §5, RFC 8414 §3
 *
 * @throws {OAuthError}
 */
export async function discover(options: DiscoverOptions, http: HttpClient): Promise<Discovery> {
  const { credentials = {} } = options;
  const { resource, ...server } = await discoverServer(options, http);
  const all = Object.entries({ resource, ...requestParameters(credentials) });
  return { ...server, parameters: Object.fromEntries(all.filter(([, value]) => value !== '')) };
}

async function discoverServer(
  { url: configured, challenge, credentials = {}, publishedBefore }: DiscoverOptions,
  http: HttpClient,
): Promise<Omit<Discovery, 'parameters'> & { resource: string }> {
  const { issuer } = credentials;
  const url = new URL(configured);
  const found =
    challenge === undefined ? await requestChallenge(url, http) : parseChallenge(challenge);
  const network = await networkOfServer(url, http);
  const challengedScopes = found.scope?.split(/\s+/).filter(Boolean);
  const challenged = challengedScopes?.length ? { challengedScopes } : {};
  const resource = await protectedResource(url, found, network, http);
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
  // The user chose the URL of the server, so its origin counts as chosen as well.
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

/** The network of the server, which may name only URLs in the same network or one further outside. */
async function networkOfServer(url: URL, http: HttpClient): Promise<Network> {
  const known = await http.networkOf(url);
  if (known !== undefined) return known;
  await requestChallenge(url, http);
  return (await http.networkOf(url)) ?? 'public';
}

/** A message that changes nothing. */
export const ping = {
  method: 'POST' as const,
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  body: Buffer.from('{"jsonrpc":"2.0","id":"latchkey","method":"ping"}'),
};

/** Sends a ping without a credential. A protected resource responds with a challenge. */
async function requestChallenge(url: URL, http: HttpClient): Promise<Challenge> {
  const { status, headers } = await fetchJson(http, { url, ...ping });
  return status === 401 ? parseChallenge(headers['www-authenticate']) : {};
}

/** The challenge of a resource in a 401 or 403 response. RFC 6750 §3, RFC 9728 §5.1 */
export type Challenge = {
  resourceMetadata?: string;
  scope?: string;
  error?: string;
};

const parameter = /([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi;

/** The Bearer challenge of a `WWW-Authenticate` header, which may contain other schemes as well. */
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

/** The authorization servers of a resource, as its metadata lists them. RFC 9728 §2 */
export type ProtectedResource = {
  /** The identifier of the resource. RFC 8707's `resource` must equal it byte for byte. */
  resource: string;
  authorizationServers: string[];
  scopesSupported?: string[];
};

/**
 * The metadata of the resource at `url`, in the network `within`: from the URL in its challenge, otherwise from the well-known
 * URL with its path, otherwise from the one without. `undefined` if there is none.
 *
 * RFC 9728 §3, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
async function protectedResource(
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
  // If a document does not exist, the caller tries the next URL. A failing server must not cause that.
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
  // `resource` may be a prefix of the URL, if several paths share their metadata.
  if (typeof resource !== 'string' || !isWithin(url.href, resource))
    throw new OAuthError('metadata', `${endpoint} describes ${String(resource)}, not ${url.href}`, {
      endpoint,
    });
  const authorizationServers = strings(servers) ?? [];
  const scopesSupported = strings(scopes);
  if (authorizationServers.length === 0)
    throw new OAuthError('metadata', `${endpoint} announces no authorization server`, { endpoint });
  return {
    resource,
    authorizationServers,
    ...(scopesSupported && { scopesSupported }),
  };
}

/** The endpoints and capabilities of an authorization server. RFC 8414 §2 */
export type AuthorizationServer = {
  issuer: string;
  tokenEndpoint: string;
  tokenEndpointAuthMethods: string[];
  authorizationEndpoint?: string;
  registrationEndpoint?: string;
  revocationEndpoint?: string;
  /** The endpoint that returns the user of an access token. OpenID Connect Core 1.0 §5.3 */
  userinfoEndpoint?: string;
  /** Whether it announces PKCE with S256. RFC 7636 §4.2 */
  takesS256: boolean;
  /** Whether every authorization response carries `iss`. RFC 9207 §3 */
  sendsIssuer: boolean;
  /** Whether an https URL may be a client id. OAuth Client ID Metadata Document §5 */
  takesMetadataUrls: boolean;
  serverScopesSupported?: string[];
  /** The grant types that it announces. RFC 8414 §2 */
  grantTypes?: string[];
  /** The profiles of grants that it announces. draft-ietf-oauth-identity-assertion-authz-grant §7 */
  grantProfiles?: string[];
  /** The protected resources that its public metadata lists. RFC 9728 §4 */
  protectedResources?: string[];
  /** No URL in its metadata may lead further into a private network than this. */
  within: Network;
};

/** An authorization server, and where its name comes from. */
export type IssuerInput = {
  issuer: string;
  /** The network of the resource that names the authorization server. */
  network: Network;
  /** Whether the user, and not a server, named it. If so, it may be in any network. */
  chosen: boolean;
};

/** The default of RFC 8414 §2. */
const defaultAuthMethods = ['client_secret_basic'];

/**
 * The metadata of `issuer`, which must contain exactly that issuer. `undefined` if none is published. A resource must not refer
 * us to this host or into a private network, unless the resource is there itself.
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
    const document = await metadataAt({ url, ...(!chosen && { within: network }) }, http);
    if (document && 'issuer' in document)
      return readServerMetadata(document, issuer, await withinOf(base, network, chosen, http), url);
  }
  return undefined;
}

/** A server that the user chose may refer to URLs in its own network. */
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
  const grantTypes = strings(document['grant_types_supported']);
  const grantProfiles = strings(document['authorization_grant_profiles_supported']);
  const protectedResources = strings(document['protected_resources']);
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
    ...(grantTypes && { grantTypes }),
    ...(grantProfiles && { grantProfiles }),
    ...(protectedResources && { protectedResources }),
    within,
  };
}

function strings(value: unknown): string[] | undefined {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : undefined;
}

/** Parses a URL that a server in the network `within` named. The addresses of its host are checked when it is requested. */
function safeUrl(text: string, within: Network, endpoint: string): URL {
  const url = webUrl(text);
  if (!url || (url.protocol !== 'https:' && within !== 'loopback'))
    throw new OAuthError('metadata', `${JSON.stringify(text)} is not an https URL`, { endpoint });
  const network = networkOfHost(url.hostname);
  if (network !== undefined && !mayName(within, network)) {
    const where = network === 'loopback' ? 'this machine' : 'a private network';
    throw new OAuthError('metadata', refusedUrl(url.href, `${url.hostname} is on ${where}`), {
      endpoint,
    });
  }
  return url;
}
