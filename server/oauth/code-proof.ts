import { createHash, timingSafeEqual } from 'node:crypto';

import { OAuthError } from './oauth-error.ts';

/** At least 32 characters rather than the 43 of RFC 7636, because the recipe in our documentation produces fewer. */
const verifierPattern = /^[\w.~-]{32,128}$/;

/** Whether an S256 challenge was derived from this code verifier. RFC 7636 §4.6 */
export function provesChallenge(verifier: string | undefined, challenge: string): boolean {
  if (verifier === undefined || !verifierPattern.test(verifier)) return false;
  const made = createHash('sha256').update(verifier).digest('base64url');
  return (
    made.length === challenge.length && timingSafeEqual(Buffer.from(made), Buffer.from(challenge))
  );
}

export function invalidCode(why: string): OAuthError {
  return new OAuthError('invalid_grant', `invalid authorization code: ${why}`);
}
