import type { HttpClient } from '#transport/http-client';
import type { Network } from '#transport/networks';
import { authorizationServer, type AuthorizationServer } from './authorization-server.ts';
import { fetchJson } from './fetch-json.ts';
import { OAuthError } from './oauth-error.ts';
import { parseChallenge, type Challenge } from './parse-challenge.ts';
import { protectedResource } from './protected-resource.ts';

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
  /** The issuer that the user insists on. */
  issuer?: string;
  /** What the user wants sent as `resource` instead of what the server says. */
  resource?: string;
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
export async function discover(
  { resource, ...options }: DiscoverOptions,
  http: HttpClient,
): Promise<Discovery> {
  const discovery = await discoverServer(options, http);
  return resource === undefined ? discovery : { ...discovery, resource };
}

async function discoverServer(
  { url: configured, challenge, issuer, publishedBefore }: DiscoverOptions,
  http: HttpClient,
): Promise<Discovery> {
  const url = new URL(configured);
  const asked =
    challenge === undefined ? await askForChallenge(url, http) : parseChallenge(challenge);
  const network = await networkOf(url, http);
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
    throw new OAuthError('metadata', `${chosen} publishes no authorization server metadata`, {
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
  // Where nobody named one it is the origin of the server itself, whose URL the user chose.
  const published = await authorizationServer({ issuer: chosen, network, chosen: true }, http);
  if (published) return published;
  if (new URL(chosen).origin !== url.origin)
    throw new OAuthError('metadata', `${chosen} publishes no authorization server metadata`, {
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
async function networkOf(url: URL, http: HttpClient): Promise<Network> {
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
