// Setting up the access to an upstream: discovery, client registration, and sealing of secrets.
import { z } from 'zod';
import type { UpstreamAccess } from '#db/upstream-access';
import type { FixedHeader } from '#model/fixed-headers';
import type { ServerRecord } from '#model/endpoints';
import { isPlainlyForbidden, type OutboundGuard } from '#outbound/checked-addresses';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import type { Sealing } from '#secrets/master-key';
import { registrationPurpose, secretPurpose, UpstreamAccessError } from './access.ts';
import { type ServerMetadata } from '#model/authorization-server';
import { accessFetch, redirectUriOf, upstreamClientDocument } from './authorization-client.ts';
import { discover, translateErrors, type DiscoveryRequest } from './discovery.ts';
import { headerPurpose, openedHeaders, type HeaderPlace } from './fixed-headers.ts';

/** Sets up the access to an upstream. Operations use this; it stores nothing. */
export function upstreamSetup({
  base,
  sealing,
  guard,
  serversOf = () => [],
}: {
  /** Our public URL; `undefined` in a command that does not know it. */
  base: string | undefined;
  sealing: Sealing;
  guard: OutboundGuard;
  /** The servers that a connected agent offers. */
  serversOf?: (agentId: string) => readonly { readonly name: string; readonly kind: string }[];
}) {
  return {
    /** Whether the URL itself already names a host that this server may not call. */
    isForbidden: (url: URL) => isPlainlyForbidden(url, guard),
    /** @throws {UpstreamAccessError} `unusable`, `unreachable`, `forbidden` */
    discover: (request: DiscoveryRequest, vouchedHosts: readonly string[]) =>
      discover(request, accessFetch(guard, vouchedHosts)),
    /** Gets a client id without an administrator. @throws {UpstreamAccessError} as `discover` */
    async register(
      request: RegistrationRequest,
      vouchedHosts: readonly string[],
    ): Promise<RegisteredClient> {
      if (base === undefined) {
        const message = 'the redirect URI is unknown: enter a client ID, or set --base-url';
        throw new UpstreamAccessError('unusable', message);
      }
      return registerClient(request, { base, fetch: accessFetch(guard, vouchedHosts) });
    },
    sealSecret: (access: Pick<UpstreamAccess, 'targetId' | 'id'>, clientSecret: string) =>
      sealing.seal(secretPurpose(access), clientSecret),
    sealRegistration: (
      access: Pick<UpstreamAccess, 'targetId' | 'clientId'>,
      accessToken: string,
    ) => sealing.seal(registrationPurpose(access), accessToken),
    sealHeader: (place: HeaderPlace, value: string) => sealing.seal(headerPurpose(place), value),
    /** The kind that an agent reports of its server, such as `stdio`; `undefined` if it is not connected, or in a command. */
    kindAtAgent: (agentId: string, server: string) =>
      serversOf(agentId).find(({ name }) => name === server)?.kind,
    /** Returns the current values of an upstream's fixed headers. */
    openHeaders: (at: Omit<HeaderPlace, 'name'>, headers: readonly FixedHeader[]) =>
      openedHeaders(headers, at, sealing),
  };
}

export type UpstreamSetup = ReturnType<typeof upstreamSetup>;

/** Our client at an authorization server. */
export interface RegisteredClient {
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  /** Where the registration can be removed, and the token for that. RFC 7592 §3 */
  readonly registration?: { readonly url: string; readonly accessToken: string };
}

export interface RegistrationRequest {
  readonly metadata: ServerMetadata;
  readonly scopes: readonly string[];
  /** The server whose upstream this is. */
  readonly server: Pick<ServerRecord, 'organization' | 'name'>;
}

const visibleText = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .regex(/^[\x20-\x7e]+$/);
const registeredSchema = z.object({
  client_id: visibleText(500),
  client_secret: visibleText(2000).optional(),
  client_secret_expires_at: z.number().optional(),
  token_endpoint_auth_method: z.string().optional(),
  registration_client_uri: z.unknown().optional(),
  registration_access_token: z.unknown().optional(),
});

/**
 * Gets us a client id at an authorization server where no administrator registered us: the URL of our metadata document
 * if the server supports that, which leaves nothing behind there, else a dynamic registration. With a document we are a
 * public client, whose codes are protected by PKCE and by a redirect URI for each server.
 *
 * MCP 2026-07-28 authorization, "Client Registration Approaches"; RFC 7591 §3
 *
 * @throws {UpstreamAccessError} `unusable`, `unreachable`, `forbidden`
 */
export async function registerClient(
  { metadata, scopes, server }: RegistrationRequest,
  { base, fetch }: { base: string; fetch: GuardedFetch },
): Promise<RegisteredClient> {
  const { issuer, registration_endpoint: endpoint } = metadata;
  // Such a client id is an https URL, which a server on loopback does not have. draft §3
  if (metadata.client_id_metadata_document_supported && base.startsWith('https:')) {
    const { client_id: clientId } = upstreamClientDocument(base, server);
    return { clientId, clientSecret: undefined };
  }
  if (endpoint === undefined) {
    const message = `${issuer} does not support automatic registration: register Latchkey there, then enter the client ID`;
    throw new UpstreamAccessError('unusable', message);
  }
  const method = methodFor(metadata);
  const { client_id: _, ...document } = upstreamClientDocument(base, server);
  const client = {
    ...document,
    redirect_uris: [redirectUriOf(base, server)],
    token_endpoint_auth_method: method,
    application_type: 'web',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  };
  const registered = registeredSchema.safeParse(
    await postRegistration(endpoint, client, issuer, fetch),
  ).data;
  if (!registered) throw byHand(`${issuer} did not return a client`);
  const { client_id: clientId, client_secret: secret } = registered;
  const isOther = (registered.token_endpoint_auth_method ?? method) !== method;
  const isMissing = method !== 'none' && secret === undefined;
  if (isOther || isMissing) throw byHand(`${issuer} registered a different client than requested`);
  // Renewal would require another registration, and people have not consented to that client.
  if ((registered.client_secret_expires_at ?? 0) > 0) {
    throw byHand(`${issuer} registers clients only for a limited time`);
  }
  return {
    clientId,
    clientSecret: method === 'none' ? undefined : secret,
    ...registrationIn(registered, issuer),
  };
}

/** How to remove the registration. Unusable values are ignored, since the client works without them. */
function registrationIn(
  registered: z.infer<typeof registeredSchema>,
  issuer: string,
): Pick<RegisteredClient, 'registration'> {
  const url = z.url().max(2000).safeParse(registered.registration_client_uri).data;
  const token = visibleText(16_384).safeParse(registered.registration_access_token).data;
  if (url === undefined || token === undefined || !token) return {};
  const isSafe = url.startsWith('https:') || new URL(url).origin === new URL(issuer).origin;
  return isSafe ? { registration: { url, accessToken: token } } : {};
}

/** Our client authentication method, in the order of preference. RFC 8414 §2 */
function methodFor({
  issuer,
  token_endpoint_auth_methods_supported: methods = ['client_secret_basic'],
}: ServerMetadata): string {
  const known = ['client_secret_basic', 'client_secret_post', 'none'];
  const method = known.find((one) => methods.includes(one));
  if (method !== undefined) return method;
  throw byHand(`${issuer} supports no client authentication method that Latchkey supports`);
}

async function postRegistration(
  endpoint: string,
  client: object,
  issuer: string,
  fetch: GuardedFetch,
): Promise<unknown> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const sent = fetch(endpoint, { method: 'POST', headers, body: JSON.stringify(client) });
  const answer = await translateErrors(endpoint, sent);
  if (answer.status >= 500 || answer.status === 429) {
    throw new UpstreamAccessError(
      'unreachable',
      `${issuer} does not accept registrations right now`,
    );
  }
  if (answer.status !== 201 && answer.status !== 200) {
    throw byHand(`${issuer} refused the registration`);
  }
  return answer.json().catch(() => undefined);
}

function byHand(message: string): UpstreamAccessError {
  const remedy = 'register Latchkey there manually, then enter the client ID';
  return new UpstreamAccessError('unusable', `${message}: ${remedy}`);
}
