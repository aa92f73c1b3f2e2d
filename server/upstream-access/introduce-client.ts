import { z } from 'zod';

import type { GuardedFetch } from '#outbound/guarded-fetch';
import { OutboundError } from '#outbound/outbound-error';
import { redirectUriOf, upstreamClientDocument, type ClientPlace } from './client-document.ts';
import type { ServerMetadata } from './discovered.ts';
import { UpstreamAccessError } from './upstream-access-error.ts';

/** Whom an authorization server knows us as from now on. */
export interface IntroducedClient {
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  /** Where that can be undone, and what that takes. RFC 7592 §3 */
  readonly registration?: { readonly url: string; readonly accessToken: string };
}

export interface Introduction {
  readonly metadata: ServerMetadata;
  readonly scopes: readonly string[];
  readonly place: ClientPlace;
}

const visible = (most: number) =>
  z
    .string()
    .max(most)
    .regex(/^[\x20-\x7e]+$/);
const registeredSchema = z.object({
  client_id: visible(500),
  client_secret: visible(2000).optional(),
  client_secret_expires_at: z.number().optional(),
  token_endpoint_auth_method: z.string().optional(),
  registration_client_uri: z.unknown().optional(),
  registration_access_token: z.unknown().optional(),
});

/**
 * Makes us known to an authorization server where nobody registered us: by the URL of our metadata document where it
 * reads such, which leaves nothing there, else by registration. With a document we are a public client, whose codes PKCE
 * and a redirect URI of the server's own protect.
 *
 * MCP 2026-07-28 authorization, "Client Registration Approaches"; RFC 7591 §3
 *
 * @throws {UpstreamAccessError} `unusable`, `unreachable`, `forbidden`
 */
export async function introduceClient(
  { metadata, scopes, place }: Introduction,
  { base, ask }: { base: string; ask: GuardedFetch },
): Promise<IntroducedClient> {
  const { issuer, registration_endpoint: endpoint } = metadata;
  // Such a client id is an https URL: who runs on loopback has none. draft §3
  if (metadata.client_id_metadata_document_supported && base.startsWith('https:')) {
    const { client_id: clientId } = upstreamClientDocument(base, place);
    return { clientId, clientSecret: undefined };
  }
  if (endpoint === undefined) {
    const words = `${issuer} lets no client introduce itself: register this server there, and give its client id`;
    throw new UpstreamAccessError('unusable', words);
  }
  const method = methodFor(metadata);
  const { client_id: _, ...about } = upstreamClientDocument(base, place);
  const wish = {
    ...about,
    redirect_uris: [redirectUriOf(base, place)],
    token_endpoint_auth_method: method,
    application_type: 'web',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  };
  const registered = registeredSchema.safeParse(await register(endpoint, wish, issuer, ask)).data;
  if (!registered) throw byHand(`${issuer} answers the registration with no client`);
  const { client_id: clientId, client_secret: secret } = registered;
  const isOther = (registered.token_endpoint_auth_method ?? method) !== method;
  const isMissing = method !== 'none' && secret === undefined;
  if (isOther || isMissing) throw byHand(`${issuer} registers another client than was asked for`);
  // Renewing it would take a registration again, whose client people have not consented to.
  if ((registered.client_secret_expires_at ?? 0) > 0) {
    throw byHand(`${issuer} registers clients for a while only`);
  }
  return {
    clientId,
    clientSecret: method === 'none' ? undefined : secret,
    ...registrationIn(registered, issuer),
  };
}

/** What it says of undoing this is used or left alone: it makes the client no worse. */
function registrationIn(
  registered: z.infer<typeof registeredSchema>,
  issuer: string,
): Pick<IntroducedClient, 'registration'> {
  const url = z.url().max(2000).safeParse(registered.registration_client_uri).data;
  const token = visible(16_384).safeParse(registered.registration_access_token).data;
  if (url === undefined || token === undefined || !token) return {};
  const isSafe = url.startsWith('https:') || new URL(url).origin === new URL(issuer).origin;
  return isSafe ? { registration: { url, accessToken: token } } : {};
}

/** How we prove who we are, in the order in which tokens are asked for. RFC 8414 §2 */
function methodFor({
  issuer,
  token_endpoint_auth_methods_supported: methods = ['client_secret_basic'],
}: ServerMetadata): string {
  const known = ['client_secret_basic', 'client_secret_post', 'none'];
  const method = known.find((one) => methods.includes(one));
  if (method !== undefined) return method;
  throw byHand(`${issuer} takes no proof that we could give`);
}

async function register(
  endpoint: string,
  wish: object,
  issuer: string,
  ask: GuardedFetch,
): Promise<unknown> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  try {
    const answer = await ask(endpoint, { method: 'POST', headers, body: JSON.stringify(wish) });
    if (answer.status >= 500 || answer.status === 429) {
      throw new UpstreamAccessError('unreachable', `${issuer} registers nobody now`);
    }
    if (answer.status !== 201 && answer.status !== 200) {
      throw byHand(`${issuer} refuses the registration`);
    }
    return await answer.json().catch(() => undefined);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const { host } = new URL(endpoint);
    throw error.code === 'forbidden'
      ? new UpstreamAccessError('forbidden', `${host} is not on the public internet`)
      : new UpstreamAccessError('unreachable', `${host} cannot be asked: ${error.code}`);
  }
}

function byHand(words: string): UpstreamAccessError {
  const remedy = 'register this server there by hand, and give its client id';
  return new UpstreamAccessError('unusable', `${words}: ${remedy}`);
}
