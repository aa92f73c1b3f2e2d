import type { HttpClient } from '#transport/http-client';
import { innerOf, mayName, networkOfHost, type Network } from '#transport/networks';
import { webUrl } from '#transport/web-url';
import { fetchJson, notAsked, type JsonObject } from './fetch-json.ts';
import { OAuthError } from './oauth-error.ts';

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
  /** Whether an https URL may stand for a client id. OAuth Client ID Metadata Document §5 */
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
      return readMetadata(json, issuer, await withinOf(base, network, chosen, http), url);
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

function readMetadata(
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
    throw new OAuthError('metadata', `${endpoint} names no token endpoint`, { endpoint });
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

/** `text` as a URL that somebody in the network `within` may name; what its host resolves to is checked when it is asked. */
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
