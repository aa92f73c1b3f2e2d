import { createLocalJWKSet, decodeJwt, jwtVerify } from 'jose';
import { z } from 'zod';

import type { Clock } from '#clock/clock';
import type { OAuthClient, OAuthClientStore } from '#credentials/oauth-client';
import type { AssertionStore } from './assertion-store.ts';
import type { Form } from './form.ts';
import { OAuthRefusal } from './oauth-refusal.ts';

const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const longestLifeSeconds = 300;
const clockToleranceSeconds = 30;
const maxLength = 8192;

/** Signatures that only the holder of a private key can make. */
export const assertionAlgorithms = [
  'EdDSA',
  'Ed25519',
  'ES256',
  'ES384',
  'ES512',
  'PS256',
  'RS256',
];

export interface PrivateKeyJwtPorts {
  readonly base: string;
  readonly clients: Pick<OAuthClientStore, 'byId'>;
  readonly assertions: AssertionStore;
  readonly clock: Clock;
}

/**
 * The client that signed an assertion with one of its registered keys: for us, of five minutes at most,
 * used once.
 *
 * RFC 7523 §3, OpenID Connect Core §9
 *
 * @throws {OAuthRefusal} `invalid_client`, `invalid_request`
 */
export async function privateKeyJwt(form: Form, ports: PrivateKeyJwtPorts): Promise<OAuthClient> {
  const { base, clients, assertions, clock } = ports;
  const assertion = form.get('client_assertion');
  if (assertion === undefined || form.get('client_assertion_type') !== assertionType) {
    throw new OAuthRefusal('invalid_request', `client_assertion_type must be ${assertionType}`);
  }
  const clientId = claimedIssuer(assertion);
  if (clientId === undefined) throw refused('not a JWT with an issuer');
  if ((form.get('client_id') ?? clientId) !== clientId) throw refused('client_id is another one');
  const client = await clients.byId(clientId);
  if (!client || client.revokedAt !== undefined) throw refused('unknown or revoked');
  const { jti, exp } = await verified(assertion, client, { base, clock });
  if (exp > clock.now() + longestLifeSeconds + clockToleranceSeconds) throw refused('too long');
  const expiresAt = exp + clockToleranceSeconds;
  if (!(await assertions.use({ clientId, jti, expiresAt }, clock.now()))) throw refused('replayed');
  return client;
}

const keySetSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });
const claimsSchema = z.object({ jti: z.string().min(1).max(256), exp: z.int(), aud: z.string() });

async function verified(
  assertion: string,
  client: OAuthClient,
  { base, clock }: Pick<PrivateKeyJwtPorts, 'base' | 'clock'>,
): Promise<z.infer<typeof claimsSchema>> {
  if (client.jwks === undefined) throw refused('no key is registered');
  try {
    const keys = createLocalJWKSet(keySetSchema.parse(JSON.parse(client.jwks)));
    const { payload } = await jwtVerify(assertion, keys, {
      algorithms: assertionAlgorithms,
      issuer: client.id,
      subject: client.id,
      audience: [base, `${base}/api/oauth/token`],
      requiredClaims: ['exp', 'jti'],
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(clock.now() * 1000),
    });
    return claimsSchema.parse(payload);
  } catch (cause) {
    throw refused('does not verify', cause);
  }
}

function claimedIssuer(assertion: string): string | undefined {
  if (assertion.length > maxLength) return undefined;
  try {
    return decodeJwt(assertion).iss;
  } catch {
    return undefined;
  }
}

/** One answer for every cause; the cause is for the log. */
function refused(why: string, cause?: unknown): OAuthRefusal {
  return new OAuthRefusal('invalid_client', 'client authentication failed', {
    cause: cause ?? why,
  });
}
