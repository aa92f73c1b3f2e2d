import { createLocalJWKSet, decodeJwt, type JWK, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { z } from 'zod';

import { type Awaitable, whenReady } from '#model/awaitable';
import type { Clock } from '#model/clock';
import { checkClientSecret, markAssertionUsed } from '#db/client-secrets';
import { findCallingClient, type OAuthClient } from '#db/clients';
import type { Db } from '#db/transaction';
import { decode, type Form } from './forms.ts';
import { OAuthError } from './oauth-error.ts';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';

/** The dependencies of client authentication. */
export interface ClientContext {
  readonly base: string;
  readonly db: Db;
  readonly clock: Clock;
}

/** The client that sent a request to an OAuth endpoint, and whether it authenticated. */
export interface IdentifiedClient {
  readonly client: OAuthClient;
  readonly authenticated: boolean;
}

/**
 * Identifies the client by its credentials or, if it need not authenticate, by its `client_id` alone. Credentials
 * that are sent are always checked.
 *
 * RFC 6749 §2.3, §3.2.1
 *
 * @throws {OAuthError} `invalid_client`, `invalid_request`
 */
export function identifyClient(
  form: Form,
  authorization: string | undefined,
  ports: ClientContext,
): Awaitable<IdentifiedClient> {
  const authenticated = (client: OAuthClient) => ({ client, authenticated: true });
  const hasSecret = authorization !== undefined || form.has('client_secret');
  if (form.has('client_assertion') || form.has('client_assertion_type')) {
    if (hasSecret)
      throw new OAuthError('invalid_request', 'use exactly one method of client authentication');
    return privateKeyJwt(form, ports).then(authenticated);
  }
  if (hasSecret) return whenReady(authenticateClient(form, authorization, ports), authenticated);
  const clientId = form.get('client_id');
  if (clientId === undefined) throw new OAuthError('invalid_request', 'client_id is missing');
  return whenReady(findCallingClient(ports.db, clientId), (client) => {
    if (!client || client.revokedAt !== undefined) throw notAuthenticated();
    if (client.authenticationRequired) throw notAuthenticated();
    return { client, authenticated: false };
  });
}

/** Returns the client if it authenticated. @throws {OAuthError} `invalid_client` */
export function provedClient({ client, authenticated }: IdentifiedClient): OAuthClient {
  if (authenticated) return client;
  throw notAuthenticated();
}

export function notAuthenticated(): OAuthError {
  return new OAuthError('invalid_client', 'client authentication failed');
}

/** The client id that a request claims, unverified: from HTTP Basic, otherwise from `client_id`. No assertion is read. */
export function claimedClient(form: Form, authorization: string | undefined): string | undefined {
  const encoded = /^Basic +([\w+/=-]+)$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return form.get('client_id');
  const [clientId = ''] = Buffer.from(encoded, 'base64').toString('utf8').split(':');
  try {
    return decode(clientId);
  } catch {
    return clientId;
  }
}

interface Presented {
  readonly clientId: string;
  readonly secret: string;
  readonly by: 'Basic' | 'body';
}

/**
 * Authenticates the client of a token or revocation request, by HTTP Basic or by `client_secret` in the body, but not
 * both. A client with registered keys has no valid secret. Wrong, unknown and revoked credentials get the same answer
 * in the same time.
 *
 * RFC 6749 §2.3.1
 *
 * @throws {OAuthError} `invalid_client`, `invalid_request`
 */
export function authenticateClient(
  form: Form,
  authorization: string | undefined,
  { db, clock }: Pick<ClientContext, 'db' | 'clock'>,
): Awaitable<OAuthClient> {
  const { clientId, secret, by } = presented(form, authorization);
  const checked =
    isWellFormedSecret('secret_', secret) &&
    checkClientSecret(db, clientId, hashSecret(secret), clock.now());
  // Both lookups start before either is awaited: on PostgreSQL they share one query.
  const found = findCallingClient(db, clientId);
  const isWaitedFor = checked instanceof Promise || found instanceof Promise;
  const both: Awaitable<[boolean, OAuthClient | undefined]> = isWaitedFor
    ? Promise.all([checked, found])
    : [checked, found];
  return whenReady(both, ([active, client]) => {
    if (!client || !active || client.revokedAt !== undefined) throw secretRefused(by);
    // Once a client has registered keys, an old secret must not impersonate it.
    if (client.jwks !== undefined) throw secretRefused(by);
    return client;
  });
}

function presented(form: Form, authorization: string | undefined): Presented {
  const clientId = form.get('client_id');
  const secret = form.get('client_secret');
  if (authorization !== undefined) {
    const basic = parseBasic(authorization);
    if (secret !== undefined) {
      throw new OAuthError(
        'invalid_request',
        'send client credentials either in the header or in the body, not in both',
      );
    }
    if (clientId !== undefined && clientId !== basic.clientId) {
      throw new OAuthError('invalid_request', 'client_id differs from the Authorization header');
    }
    return basic;
  }
  if (clientId === undefined) throw new OAuthError('invalid_request', 'client_id is missing');
  if (secret === undefined) throw secretRefused('body');
  return { clientId, secret, by: 'body' };
}

function parseBasic(authorization: string): Presented {
  const encoded = /^Basic +([A-Za-z0-9+/=_-]+)$/i.exec(authorization)?.[1];
  if (encoded === undefined) {
    throw new OAuthError('invalid_client', 'client authentication failed', {
      challenge: 'Basic',
    });
  }
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 0) throw secretRefused('Basic');
  return {
    clientId: decode(text.slice(0, colon)),
    secret: decode(text.slice(colon + 1)),
    by: 'Basic',
  };
}

function secretRefused(by: Presented['by']): OAuthError {
  const options = by === 'Basic' ? ({ challenge: 'Basic' } as const) : {};
  return new OAuthError('invalid_client', 'client authentication failed', options);
}

const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const longestLifeSeconds = 300;
const clockToleranceSeconds = 30;
const maxAssertionLength = 8192;

/** Asymmetric algorithms only: the server must not be able to forge a client's assertion. */
export const assertionAlgorithms = [
  'EdDSA',
  'Ed25519',
  'ES256',
  'ES384',
  'ES512',
  'PS256',
  'RS256',
];

/**
 * Authenticates a client by an assertion signed with one of its registered keys. The assertion must be addressed to this
 * server, expire within five minutes and be used only once. A signature is verified even if the client is unknown, revoked
 * or has no such key, so that the response time reveals nothing.
 *
 * RFC 7523 §3, OpenID Connect Core §9
 *
 * @throws {OAuthError} `invalid_client`, `invalid_request`
 */
export async function privateKeyJwt(form: Form, ports: ClientContext): Promise<OAuthClient> {
  const { base, db, clock } = ports;
  const assertion = form.get('client_assertion');
  if (assertion === undefined || form.get('client_assertion_type') !== assertionType) {
    throw new OAuthError('invalid_request', `client_assertion_type must be ${assertionType}`);
  }
  const clientId = signerOf(form);
  if (clientId === undefined) throw assertionRefused('not a JWT with an issuer');
  if ((form.get('client_id') ?? clientId) !== clientId)
    throw assertionRefused('client_id does not match the issuer');
  const found = await findCallingClient(db, clientId);
  const client = found?.revokedAt === undefined ? found : undefined;
  const of = { clientId, jwks: client?.jwks ?? noKeys };
  const { jti, exp } = await verifiedAssertion(assertion, of, { base, clock });
  if (!client) throw assertionRefused('unknown or revoked');
  if (exp > clock.now() + longestLifeSeconds + clockToleranceSeconds)
    throw assertionRefused('too long');
  const expiresAt = exp + clockToleranceSeconds;
  if (!(await markAssertionUsed(db, { clientId, jti, expiresAt }, clock.now())))
    throw assertionRefused('replayed');
  return client;
}

const noKeys = '{"keys":[]}';
const keySetSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });
const claimsSchema = z.object({ jti: z.string().min(1).max(256), exp: z.int(), aud: z.string() });

async function verifiedAssertion(
  assertion: string,
  { clientId, jwks }: { clientId: string; jwks: string },
  { base, clock }: Pick<ClientContext, 'base' | 'clock'>,
): Promise<z.infer<typeof claimsSchema>> {
  let isDecoy = false;
  const keyOf: JWTVerifyGetKey = async (header, token) => {
    try {
      return await createLocalJWKSet(keySetSchema.parse(JSON.parse(jwks)))(header, token);
    } catch {
      isDecoy = true;
      const { alg } = header;
      return createLocalJWKSet({ keys: [decoys.get(alg) ?? rsa] })({ alg }, token);
    }
  };
  try {
    const { payload } = await jwtVerify(assertion, keyOf, {
      algorithms: assertionAlgorithms,
      issuer: clientId,
      subject: clientId,
      audience: [base, `${base}/api/oauth/token`],
      requiredClaims: ['exp', 'jti'],
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(clock.now() * 1000),
    });
    if (isDecoy) throw new TypeError('verified by a decoy');
    return claimsSchema.parse(payload);
  } catch (cause) {
    throw isDecoy
      ? assertionRefused('no such key is registered')
      : assertionRefused('does not verify', cause);
  }
}

const ed25519: JWK = {
  crv: 'Ed25519',
  x: 'eyU4OkgIcCgbXVwc9xQkGgP6u6NLKhOrqb4CYXFZyog',
  kty: 'OKP',
};
const rsa: JWK = {
  kty: 'RSA',
  e: 'AQAB',
  n: 'rRgV9BVEbvSBkG-27BPhWdW1LqMSVdXF8avT-4-OTDBreJSCNb3FguAmPJ26iMhQGcm_xlOGEDrSPMLaycQ7SQpTEJBY244ndPcd3XNstyvvj9x_LFWeG5283fCCtm9Y3phCnjXfWDhQH_xk6o-JAG14i5p-RWVWiyPyOAD2lSzwsgdrA0GYLIJYvLbS0ojp1nag5VyxOAIuUjYZfx41rr1jGzlLNJeEykl-RxVaJCc2sdeSCWKArB9npNEtUHoFdppqiTMecJqssB4jAD9SV28VEO9NHEKd5RAnaVXkZ_f5mqcH7hkrpjCCDAVWCKY56H14Zw36cj_IpCVzbOwdow',
};

/** Public keys whose private keys were never kept, by algorithm. */
const decoys = new Map<string, JWK>([
  ['EdDSA', ed25519],
  ['Ed25519', ed25519],
  [
    'ES256',
    {
      kty: 'EC',
      x: 'bI8hSRBTZMh4rLNRKNiS9juPAs8O3LDlSv67P6xkpPU',
      y: 'u_TLdnH3_5OIcEwomM-c2qoUDzYs4W6d7DlDDriIWQs',
      crv: 'P-256',
    },
  ],
  [
    'ES384',
    {
      kty: 'EC',
      x: '-pjZ-hLN26cfYwzJMY0fXCILecFfmAWW3RoQBxGPvst15nE5EKLaK96i6eeKEn6f',
      y: '8rD00wd_84FssCtfE_3gHrnagAtgAW855jCL93j6BUdo4qDhS0ol07S6B6zOg90E',
      crv: 'P-384',
    },
  ],
  [
    'ES512',
    {
      kty: 'EC',
      x: 'ANdgE1I6QDI4sHZch2tMVfdBhKGHp4iADrBaurU51MPwqXsVR_lQv7lz-IBmWuUKE6_hDcZKl1nYajUN8KksTIMb',
      y: 'AaC2qK8FybVcJiP2EuF7X-BqwnvJi1-64SHdwnAI05_ojta69CTifUZ9DqVZPpBIQcL25dlniN_4NIrouUzo6lph',
      crv: 'P-521',
    },
  ],
  ['PS256', rsa],
  ['RS256', rsa],
]);

/** The issuer that the assertion of a client claims, unverified. */
export function signerOf(form: Form): string | undefined {
  const assertion = form.get('client_assertion') ?? '';
  if (assertion.length > maxAssertionLength) return undefined;
  try {
    return decodeJwt(assertion).iss;
  } catch {
    return undefined;
  }
}

/** Returns the same answer for every cause. Only the log contains the cause. */
function assertionRefused(why: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_client', 'client authentication failed', {
    cause: cause ?? why,
  });
}
