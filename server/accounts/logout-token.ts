import { type JWTPayload, jwtVerify, type JWTVerifyGetKey } from 'jose';

import type { ProviderLogout } from '#db/provider-sessions';
import type { EpochSeconds } from '#model/clock';

/** The logout that a token announces, or why the token is invalid. */
export type LogoutTokenReading =
  | { readonly outcome: 'valid'; readonly logout: ProviderLogout }
  /** `why` contains nothing of the token that could be a secret. */
  | { readonly outcome: 'invalid'; readonly why: string };

/** The values that a logout token must match. */
export interface LogoutTokenChecks {
  readonly issuer: string;
  readonly clientId: string;
  /** The algorithms of the provider's ID tokens. */
  readonly algorithms: readonly string[];
  readonly keys: JWTVerifyGetKey;
  readonly now: EpochSeconds;
}

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout';
const clockToleranceSeconds = 60;
/** A token is stored until it expires, so that it is accepted only once. */
const longestLifeSeconds = 86_400;
const longestText = 500;

/** Algorithms with a key pair: anyone who knows the client secret could sign with any other. */
const asymmetric = /^(?:RS|PS|ES)(?:256|384|512)$|^(?:EdDSA|Ed25519)$/;

/**
 * Verifies a logout token: it must be signed like the ID tokens of the provider, by this issuer for this client, and be only a
 * logout. The caller checks that it arrives for the first time. Never rejects.
 *
 * OpenID Connect Back-Channel Logout 1.0 §2.4, §2.6
 */
export async function readLogoutToken(
  token: string,
  { issuer, clientId, algorithms, keys, now }: LogoutTokenChecks,
): Promise<LogoutTokenReading> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience: clientId,
      algorithms: algorithms.filter((name) => asymmetric.test(name)),
      // An ID token must not pass for a logout token. RFC 8725 §3.11
      typ: 'logout+jwt',
      requiredClaims: ['iat', 'exp', 'jti', 'events'],
      maxTokenAge: longestLifeSeconds,
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(now * 1000),
    });
    return logoutIn(payload, now);
  } catch (error) {
    return { outcome: 'invalid', why: error instanceof Error ? error.message : 'unreadable' };
  }
}

function logoutIn(claims: JWTPayload, now: EpochSeconds): LogoutTokenReading {
  const invalid = (why: string): LogoutTokenReading => ({ outcome: 'invalid', why });
  const { jti, sub, sid, events, nonce, iat = now, exp = now } = claims;
  if (!isText(jti)) return invalid('"jti" is not a text');
  if (!hasLogoutEvent(events)) return invalid('"events" does not name a logout');
  if (nonce !== undefined) return invalid('"nonce" is present, as in an ID token');
  if (sub !== undefined && !isText(sub)) return invalid('"sub" is not a text');
  if (sid !== undefined && !isText(sid)) return invalid('"sid" is not a text');
  if (sub === undefined && sid === undefined) return invalid('neither "sub" nor "sid"');
  const expiresAt = Math.min(Math.ceil(exp), now + longestLifeSeconds) + 2 * clockToleranceSeconds;
  const logout = { tokenId: jti, issuedAt: Math.floor(iat), expiresAt };
  return { outcome: 'valid', logout: { ...logout, subject: sub, providerSession: sid } };
}

function hasLogoutEvent(events: unknown): boolean {
  if (typeof events !== 'object' || events === null) return false;
  const event: unknown = Reflect.get(events, logoutEvent);
  return typeof event === 'object' && event !== null && !Array.isArray(event);
}

function isText(claim: unknown): claim is string {
  return typeof claim === 'string' && claim !== '' && claim.length <= longestText;
}
