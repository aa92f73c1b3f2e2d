import { webUrl } from '#transport/web-url';
import type { HttpClient } from '#transport/http-client';
import type { Network } from '#transport/networks';
import { fetchJson, type JsonObject } from './fetch-json.ts';
import { OAuthError } from './oauth-error.ts';
import type { Challenge } from './parse-challenge.ts';

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
    if (!document) throw new OAuthError('metadata', `${endpoint} holds no metadata`, { endpoint });
    return readMetadata(document, url, announced);
  }
  const wellKnown = '/.well-known/oauth-protected-resource';
  const path = url.pathname === '/' ? '' : url.pathname;
  const forms = new Set([`${wellKnown}${path}${url.search}`, wellKnown]);
  for (const form of forms) {
    const guessed = new URL(form, url.origin);
    const document = await metadataAt({ url: guessed }, http);
    if (document && typeof document['resource'] === 'string')
      return readMetadata(document, url, guessed);
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

function readMetadata(document: JsonObject, url: URL, from: URL): ProtectedResource {
  const endpoint = from.href;
  const { resource, authorization_servers: servers, scopes_supported: scopes } = document;
  if (typeof resource !== 'string' || !covers(resource, url))
    throw new OAuthError('metadata', `${endpoint} describes ${String(resource)}, not ${url.href}`, {
      endpoint,
    });
  const authorizationServers = strings(servers);
  if (authorizationServers.length === 0)
    throw new OAuthError('metadata', `${endpoint} names no authorization server`, { endpoint });
  return {
    resource,
    authorizationServers,
    ...(Array.isArray(scopes) && { scopesSupported: strings(scopes) }),
  };
}

/** A resource may describe itself, or a whole tree of paths that it serves. */
function covers(resource: string, url: URL): boolean {
  const described = URL.parse(resource);
  if (described?.origin !== url.origin) return false;
  const tree = described.pathname.endsWith('/') ? described.pathname : `${described.pathname}/`;
  return `${url.pathname}/`.startsWith(tree);
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
