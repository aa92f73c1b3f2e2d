import type { HttpClient } from '#http/http-client';
import { isLoopback, webUrl } from '#http/web-url';
import { fetchJson, type JsonObject } from './fetch-json.ts';
import { OAuthError } from './oauth-error.ts';

/** Where an authorization server does what. RFC 8414 §2 */
export type AuthorizationServer = {
  issuer: string;
  tokenEndpoint: string;
  tokenEndpointAuthMethods: string[];
};

/** RFC 8414 §2: what a server accepts that does not say. */
const defaultAuthMethods = ['client_secret_basic'];

/**
 * The metadata of `issuer`, which must call itself exactly that. `undefined` when it publishes none.
 * A resource elsewhere cannot point us at plain http on this machine.
 *
 * RFC 8414 §3, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function authorizationServer(
  issuer: string,
  resource: URL,
  http: HttpClient,
): Promise<AuthorizationServer | undefined> {
  const base = safeUrl(issuer, resource, issuer);
  for (const url of metadataUrls(base)) {
    const answer = await fetchJson(http, {
      url,
      method: 'GET',
      headers: { accept: 'application/json' },
    });
    const { status, json } = answer;
    const endpoint = url.href;
    if (status >= 500 || status === 429)
      throw new OAuthError('unreachable', `${endpoint} answered ${status}`, { endpoint, status });
    if (status === 200 && json && 'issuer' in json)
      return readMetadata(json, issuer, resource, url);
  }
  return undefined;
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
  resource: URL,
  from: URL,
): AuthorizationServer {
  const endpoint = from.href;
  if (document['issuer'] !== issuer)
    throw new OAuthError(
      'issuer',
      `${endpoint} calls itself ${String(document['issuer'])}, not ${issuer}`,
      { endpoint },
    );
  const tokenEndpoint = document['token_endpoint'];
  if (typeof tokenEndpoint !== 'string')
    throw new OAuthError('metadata', `${endpoint} names no token endpoint`, { endpoint });
  safeUrl(tokenEndpoint, resource, endpoint);
  const methods: unknown = document['token_endpoint_auth_methods_supported'];
  return {
    issuer,
    tokenEndpoint,
    tokenEndpointAuthMethods: Array.isArray(methods)
      ? methods.filter((method) => typeof method === 'string')
      : defaultAuthMethods,
  };
}

function safeUrl(text: string, resource: URL, endpoint: string): URL {
  const url = webUrl(text);
  if (url && (url.protocol === 'https:' || isLoopback(resource))) return url;
  throw new OAuthError('metadata', `${text} is not an https URL`, { endpoint });
}
