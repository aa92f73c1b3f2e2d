import { randomUUID, sign, type KeyObject } from 'node:crypto';
import type { EpochSeconds } from '#clock/clock';
import { OAuthError } from './oauth-error.ts';

const lifeSeconds = 60;

/**
 * A signed statement of who we are, for the token endpoint of one issuer. The algorithm follows from
 * the key: Ed25519 signs EdDSA, P-256 ES256, RSA RS256.
 *
 * RFC 7523 §3; `aud` is the issuer, as draft-ietf-oauth-rfc7523bis has it
 *
 * @throws {OAuthError} `client` when the key is of another kind
 */
export function clientAssertion(
  { clientId, key }: { clientId: string; key: KeyObject },
  issuer: string,
  now: EpochSeconds,
): string {
  const { alg, digest } = algorithm(key, issuer);
  const claims = {
    iss: clientId,
    sub: clientId,
    aud: issuer,
    iat: now,
    exp: now + lifeSeconds,
    jti: randomUUID(),
  };
  const signed = [{ alg, typ: 'JWT' }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  // JOSE wants r and s side by side, not the DER that Node makes unasked. RFC 7518 §3.4
  const signature = sign(digest, Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
  return `${signed}.${signature.toString('base64url')}`;
}

function algorithm(key: KeyObject, issuer: string): { alg: string; digest: string | null } {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519') return { alg: 'EdDSA', digest: null };
  if (type === 'ec' && details?.namedCurve === 'prime256v1')
    return { alg: 'ES256', digest: 'sha256' };
  if (type === 'rsa') return { alg: 'RS256', digest: 'sha256' };
  throw new OAuthError('client', 'the private key is neither Ed25519, P-256 nor RSA', {
    endpoint: issuer,
  });
}
