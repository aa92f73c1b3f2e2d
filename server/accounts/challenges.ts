import { randomBytes, timingSafeEqual } from 'node:crypto';

import type { Clock } from '#model/clock';
import { hashSecret } from '#secrets/secrets';
import { markChallengeSpent } from '#db/one-time';
import type { Db } from '#db/transaction';
import { challengeLifeSeconds } from '#model/lifetimes';
import type { Sealing } from '#secrets/master-key';

const timeBytes = 6;
const randomLength = 16;
const macBytes = 16;

export interface ChallengePorts {
  readonly sealing: Pick<Sealing, 'mac'>;
  readonly clock: Clock;
}

/**
 * Issues a challenge that one browser must return, once, within five minutes: for a passkey, as the state of single
 * sign-on, or as proof of a correct password. It is authenticated with a key of this server over expiry, purpose and
 * the browser's cookie, and nothing is stored until it is used, so issuing many costs nothing. Base64url.
 */
export function issueChallenge(
  purpose: string,
  cookieToken: string,
  { sealing, clock }: ChallengePorts,
): string {
  const head = Buffer.alloc(timeBytes + randomLength);
  head.writeUIntBE(clock.now() + challengeLifeSeconds, 0, timeBytes);
  randomBytes(randomLength).copy(head, timeBytes);
  return Buffer.concat([head, macOf(head, { purpose, cookieToken }, sealing)]).toString(
    'base64url',
  );
}

/**
 * Whether this server issued the challenge to this browser for this purpose, and it has neither expired nor been
 * used. Stores nothing for an invalid challenge, and a valid one only until it expires.
 */
export async function spendChallenge(
  { challenge, ...issued }: { challenge: string; purpose: string; cookieToken: string },
  { sealing, db, clock }: ChallengePorts & { readonly db: Db },
): Promise<boolean> {
  const bytes = Buffer.from(challenge, 'base64url');
  if (bytes.length !== timeBytes + randomLength + macBytes) return false;
  if (bytes.toString('base64url') !== challenge) return false;
  const head = bytes.subarray(0, timeBytes + randomLength);
  const mac = bytes.subarray(timeBytes + randomLength);
  if (!timingSafeEqual(mac, macOf(head, issued, sealing))) return false;
  const expiresAt = head.readUIntBE(0, timeBytes);
  const now = clock.now();
  if (expiresAt <= now) return false;
  // Issued by a process whose clock is ahead. Its record would be kept for just as long.
  if (expiresAt > now + challengeLifeSeconds) return false;
  return markChallengeSpent(db, hashSecret(challenge), expiresAt, now);
}

function macOf(
  head: Buffer,
  { purpose, cookieToken }: { purpose: string; cookieToken: string },
  sealing: Pick<Sealing, 'mac'>,
): Buffer {
  const text = JSON.stringify([purpose, cookieToken, head.toString('base64url')]);
  return Buffer.from(sealing.mac('challenge', text), 'base64url').subarray(0, macBytes);
}
