import type { OAuthClient } from '#credentials/oauth-client';
import { authenticateClient, type ClientAuthenticationPorts } from './client-authentication.ts';
import type { Form } from './form.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { privateKeyJwt, type PrivateKeyJwtPorts } from './private-key-jwt.ts';

export interface IdentifyClientPorts extends ClientAuthenticationPorts, PrivateKeyJwtPorts {
  readonly clients: ClientAuthenticationPorts['clients'];
}

/** Who a request to an OAuth endpoint comes from, and whether it has proved that. */
export interface IdentifiedClient {
  readonly client: OAuthClient;
  readonly authenticated: boolean;
}

/**
 * The client that a request names, by whatever it proves that with, or, unless it has to authenticate, by its
 * `client_id` alone. What is sent as a proof is always checked.
 *
 * RFC 6749 §2.3, §3.2.1
 *
 * @throws {OAuthRefusal} `invalid_client`, `invalid_request`
 */
export async function identifyClient(
  form: Form,
  authorization: string | undefined,
  ports: IdentifyClientPorts,
): Promise<IdentifiedClient> {
  const hasSecret = authorization !== undefined || form.has('client_secret');
  if (form.has('client_assertion') || form.has('client_assertion_type')) {
    if (hasSecret) throw new OAuthRefusal('invalid_request', 'one client authentication at a time');
    return { client: await privateKeyJwt(form, ports), authenticated: true };
  }
  if (hasSecret) {
    return { client: await authenticateClient(form, authorization, ports), authenticated: true };
  }
  const clientId = form.get('client_id');
  if (clientId === undefined) throw new OAuthRefusal('invalid_request', 'client_id is missing');
  const client = await ports.clients.byId(clientId);
  if (!client || client.revokedAt !== undefined) throw notAuthenticated();
  if (client.authenticationRequired) throw notAuthenticated();
  return { client, authenticated: false };
}

/** The client, if it has proved to be it. @throws {OAuthRefusal} `invalid_client` */
export function provedClient({ client, authenticated }: IdentifiedClient): OAuthClient {
  if (authenticated) return client;
  throw notAuthenticated();
}

export function notAuthenticated(): OAuthRefusal {
  return new OAuthRefusal('invalid_client', 'client authentication failed');
}
