import { hashSecret, isWellFormedSecret } from '#credentials/secret-format';
import type { Clock } from '#clock/clock';
import type { OAuthClient, OAuthClientStore } from '#credentials/oauth-client';
import { decode, type Form } from './form.ts';
import { OAuthRefusal } from './oauth-refusal.ts';

export interface ClientAuthenticationPorts {
  readonly clients: Pick<OAuthClientStore, 'byId' | 'hasSecret'>;
  readonly clock: Clock;
}

interface Presented {
  readonly clientId: string;
  readonly secret: string;
  readonly by: 'Basic' | 'body';
}

/**
 * The client that a request to the token or revocation endpoint proves to be, by HTTP Basic or by
 * `client_secret` in the body, never by both. A client that registered keys has no secret that counts.
 * Wrong, unknown and revoked are one answer, reached by the same steps.
 *
 * RFC 6749 §2.3.1
 *
 * @throws {OAuthRefusal} `invalid_client`, `invalid_request`
 */
export async function authenticateClient(
  form: Form,
  authorization: string | undefined,
  { clients, clock }: ClientAuthenticationPorts,
): Promise<OAuthClient> {
  const { clientId, secret, by } = presented(form, authorization);
  const active =
    isWellFormedSecret('secret_', secret) &&
    (await clients.hasSecret(clientId, hashSecret(secret), clock.now()));
  const client = await clients.byId(clientId);
  if (!client || !active || client.revokedAt !== undefined) throw refused(by);
  // Whoever registered keys must not be taken for somebody who has found an old secret.
  if (client.jwks !== undefined) throw refused(by);
  return client;
}

function presented(form: Form, authorization: string | undefined): Presented {
  const clientId = form.get('client_id');
  const secret = form.get('client_secret');
  if (authorization !== undefined) {
    const basic = parseBasic(authorization);
    if (secret !== undefined) {
      throw new OAuthRefusal('invalid_request', 'client credentials in the header and in the body');
    }
    if (clientId !== undefined && clientId !== basic.clientId) {
      throw new OAuthRefusal('invalid_request', 'client_id differs from the Authorization header');
    }
    return basic;
  }
  if (clientId === undefined) throw new OAuthRefusal('invalid_request', 'client_id is missing');
  if (secret === undefined) throw refused('body');
  return { clientId, secret, by: 'body' };
}

function parseBasic(authorization: string): Presented {
  const encoded = /^Basic +([A-Za-z0-9+/=_-]+)$/i.exec(authorization)?.[1];
  if (encoded === undefined) {
    throw new OAuthRefusal('invalid_client', 'client authentication failed', {
      challenge: 'Basic',
    });
  }
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 0) throw refused('Basic');
  return {
    clientId: decode(text.slice(0, colon)),
    secret: decode(text.slice(colon + 1)),
    by: 'Basic',
  };
}

function refused(by: Presented['by']): OAuthRefusal {
  const options = by === 'Basic' ? ({ challenge: 'Basic' } as const) : {};
  return new OAuthRefusal('invalid_client', 'client authentication failed', options);
}
