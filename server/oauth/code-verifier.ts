import { createHash, timingSafeEqual } from 'node:crypto';

/** 32 rather than RFC 7636's 43, as the usual recipe of our own documentation gives fewer. */
const verifierPattern = /^[\w.~-]{32,128}$/;

/** Whether a code verifier is the one that an S256 challenge was made from. RFC 7636 §4.6 */
export function provesChallenge(verifier: string | undefined, challenge: string): boolean {
  if (verifier === undefined || !verifierPattern.test(verifier)) return false;
  const made = createHash('sha256').update(verifier).digest('base64url');
  return (
    made.length === challenge.length && timingSafeEqual(Buffer.from(made), Buffer.from(challenge))
  );
}
