import { z } from 'zod';
import type { UpstreamAccessKind } from '#db/upstream-access';
import { hostFault, OutboundError } from '#outbound/checked-addresses';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import {
  serverMetadataSchema,
  type Discovered,
  type ServerMetadata,
} from '#model/authorization-server';
import { UpstreamAccessError } from './access.ts';

const resourceSchema = z.object({
  resource: z.string(),
  authorization_servers: z.array(z.string()).min(1).optional(),
  scopes_supported: z.array(z.string()).optional(),
});
type ResourceMetadata = z.infer<typeof resourceSchema>;

export interface DiscoveryRequest {
  readonly url: string;
  readonly kind: UpstreamAccessKind;
  /** The authorization server that an administrator chose. Default: the first one that the upstream names. */
  readonly issuer?: string | undefined;
  /** The upstream's fixed headers, which are sent only to its origin. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface DiscoveryResult extends Discovered {
  readonly scopes: readonly string[];
}

/**
 * Finds an upstream's authorization server: from the challenge of its 401, its protected resource metadata, and the
 * authorization server's metadata. A document about another resource or issuer is refused.
 *
 * MCP 2026-07-28 authorization, RFC 9728 §3.3, §5.1, RFC 8414 §3.3, OpenID Connect Discovery §4
 *
 * @throws {UpstreamAccessError} `unusable`, `unreachable`, `forbidden`
 */
export async function discover(
  { url, kind, issuer, headers = {} }: DiscoveryRequest,
  fetch: GuardedFetch,
): Promise<DiscoveryResult> {
  const fetchThere = fetchWithHeaders(fetch, new URL(url).origin, headers);
  const challenge = await fetchChallenge(url, fetchThere);
  const resource = await fetchResourceMetadata(url, challenge.metadataUrl, fetchThere);
  const named = resource?.authorization_servers ?? [];
  if (issuer !== undefined && named.length > 0 && !named.includes(issuer)) {
    const some = named.slice(0, 3).join(', ').slice(0, 300);
    throw unusable(`the upstream names ${some} instead of ${issuer}`);
  }
  const chosen = issuer ?? named[0];
  if (chosen === undefined) {
    throw unusable('the upstream does not announce an authorization server: enter its issuer URL');
  }
  const metadata = await fetchServerMetadata(chosen, fetch);
  checkMetadata(metadata, kind);
  const offers = metadata.scopes_supported?.includes('offline_access') ?? false;
  const scopes = challenge.scopes ?? resource?.scopes_supported ?? [];
  return {
    metadata,
    resource: resource?.resource ?? url,
    scopes: [
      ...scopes.filter((scope) => scope !== 'offline_access'),
      ...(kind === 'authorization_code' && offers ? ['offline_access'] : []),
    ],
  };
}

function unusable(message: string): UpstreamAccessError {
  return new UpstreamAccessError('unusable', message);
}

/** Adds `fixed` headers to requests to one origin. */
function fetchWithHeaders(
  fetch: GuardedFetch,
  origin: string,
  fixed: Readonly<Record<string, string>>,
): GuardedFetch {
  return (url, request = {}) =>
    new URL(url).origin === origin
      ? fetch(url, { ...request, headers: { ...fixed, ...request.headers } })
      : fetch(url, request);
}

/** Reads the challenge to a request without a token. */
async function fetchChallenge(
  url: string,
  fetch: GuardedFetch,
): Promise<{ metadataUrl?: string; scopes?: readonly string[] }> {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'latchkey-server', version: '1' },
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const answer = await translateErrors(url, fetch(url, { method: 'POST', headers, body }));
  const header = answer.headers.get('www-authenticate') ?? '';
  const metadataUrl = /\bresource_metadata="([^"\\]{1,2000})"/i.exec(header)?.[1];
  const scope = /\bscope="([^"\\]{0,2000})"/i.exec(header)?.[1];
  const scopes = scope?.split(' ').filter((word) => word !== '');
  return {
    ...(metadataUrl !== undefined && { metadataUrl }),
    ...(scopes && scopes.length > 0 && { scopes }),
  };
}

/** @throws {UpstreamAccessError} `unusable` when the document is about another resource */
async function fetchResourceMetadata(
  url: string,
  challenged: string | undefined,
  fetch: GuardedFetch,
): Promise<ResourceMetadata | undefined> {
  const { origin, pathname, search } = new URL(url);
  const path = pathname === '/' ? '' : pathname;
  const root = `${origin}/.well-known/oauth-protected-resource`;
  const locations = challenged === undefined ? [`${root}${path}${search}`, root] : [challenged];
  for (const location of locations) {
    const found = resourceSchema.safeParse(await fetchDocument(location, fetch)).data;
    if (!found) continue;
    if (covers(found.resource, url)) return found;
    throw unusable(`${location} does not describe ${url}`);
  }
  if (challenged === undefined) return undefined;
  throw unusable(`${challenged} is not protected resource metadata`);
}

/** Whether a resource is this URL or a path above it. RFC 9728 §3.3, and MCP's canonical URI of a server */
function covers(resource: string, url: string): boolean {
  if (!URL.canParse(resource)) return false;
  const [outer, inner] = [new URL(resource), new URL(url)];
  if (outer.origin !== inner.origin || outer.hash !== '') return false;
  const withSlash = (path: string) => (path.endsWith('/') ? path : `${path}/`);
  return withSlash(inner.pathname).startsWith(withSlash(outer.pathname));
}

async function fetchServerMetadata(issuer: string, fetch: GuardedFetch): Promise<ServerMetadata> {
  const problem = 'is not a valid issuer URL';
  if (!URL.canParse(issuer)) throw unusable(`${issuer} ${problem}`);
  const { origin, pathname, search, hash, protocol } = new URL(issuer);
  if (search || hash || !/^https?:$/.test(protocol)) {
    throw unusable(`${issuer} ${problem}`);
  }
  const path = pathname.replace(/\/$/, '');
  const locations = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    ...(path === '' ? [] : [`${origin}${path}/.well-known/openid-configuration`]),
  ];
  for (const location of locations) {
    const found = serverMetadataSchema.safeParse(await fetchDocument(location, fetch)).data;
    if (!found) continue;
    // RFC 8414 §3.3: unless it is identical byte for byte, the document belongs to another issuer.
    if (found.issuer === issuer) return found;
    throw unusable(`${location} belongs to another issuer than ${issuer}`);
  }
  throw unusable(`${issuer} publishes no metadata`);
}

function checkMetadata(metadata: ServerMetadata, kind: UpstreamAccessKind): void {
  const { issuer } = metadata;
  const endpoints = [
    metadata.token_endpoint,
    metadata.authorization_endpoint,
    metadata.pushed_authorization_request_endpoint,
    metadata.revocation_endpoint,
    metadata.registration_endpoint,
  ].filter((endpoint) => endpoint !== undefined);
  // Plain HTTP only if the issuer itself uses it, which the guard allows only for hosts that the operator named.
  const schemes = issuer.startsWith('https:') ? /^https:$/ : /^https?:$/;
  for (const endpoint of endpoints) {
    if (!URL.canParse(endpoint) || !schemes.test(new URL(endpoint).protocol)) {
      throw unusable(`${issuer} has an endpoint that is not an https URL`);
    }
  }
  if (kind === 'client_credentials') return;
  if (metadata.authorization_endpoint === undefined) {
    throw unusable(`${issuer} has no authorization endpoint`);
  }
  if (!metadata.code_challenge_methods_supported?.includes('S256')) {
    throw unusable(`${issuer} does not support PKCE with S256`);
  }
}

/** `undefined` when there is no JSON document. */
async function fetchDocument(url: string, fetch: GuardedFetch): Promise<unknown> {
  if (!URL.canParse(url)) throw unusable('the upstream announces an invalid URL');
  const answer = await translateErrors(
    url,
    fetch(url, { headers: { accept: 'application/json' } }),
  );
  if (answer.status !== 200) return undefined;
  try {
    return await answer.json();
  } catch {
    return undefined;
  }
}

/** @throws {UpstreamAccessError} `unreachable`, `forbidden`, if there is no response */
export async function translateErrors(url: string, request: Promise<Response>): Promise<Response> {
  try {
    return await request;
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const { host } = new URL(url);
    throw error.code === 'forbidden' || error.code === 'not_public'
      ? new UpstreamAccessError('forbidden', `${host} ${hostFault(error)}`)
      : new UpstreamAccessError('unreachable', `${host} cannot be reached: ${error.code}`);
  }
}
