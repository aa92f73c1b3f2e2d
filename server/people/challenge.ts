import { randomBytes, timingSafeEqual } from 'node:crypto';

import type { Clock } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import type { ChallengeStore } from './challenge-store.ts';
import type { Sealing } from './sealing.ts';

const lifeSeconds = 5 * 60;
const timeBytes = 6;
const randomLength = 16;
const macBytes = 16;

export interface ChallengePorts {
  readonly sealing: Pick<Sealing, 'mac'>;
  readonly clock: Clock;
}

/**
 * Something that one browser must bring back, once, within five minutes: a passkey's challenge, the state
 * of a sign-in elsewhere, the proof that a password was right. Only this server can issue one: its code is made under
 * a key that never leaves the server, over the end, the purpose and the browser's cookie. Nothing is stored until it
 * is used, so issuing many costs nothing. Base64url.
 */
export function issueChallenge(
  purpose: string,
  cookieToken: string,
  { sealing, clock }: ChallengePorts,
): string {
  const head = Buffer.alloc(timeBytes + randomLength);
  head.writeUIntBE(clock.now() + lifeSeconds, 0, timeBytes);
  randomBytes(randomLength).copy(head, timeBytes);
  return Buffer.concat([head, macOf(head, { purpose, cookieToken }, sealing)]).toString(
    'base64url',
  );
}

/**
 * Whether this server issued the challenge to this browser for this purpose, and it is used in time and for the first
 * time. Writes nothing for a challenge that was never issued, and for one that was only until it expires.
 */
export async function spendChallenge(
  { challenge, ...issued }: { challenge: string; purpose: string; cookieToken: string },
  { sealing, challenges, clock }: ChallengePorts & { readonly challenges: ChallengeStore },
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
  // Issued by a clock that was ahead: what is stored of it would stay for as long.
  if (expiresAt > now + lifeSeconds) return false;
  return challenges.spend(hashSecret(challenge), expiresAt, now);
}

function macOf(
  head: Buffer,
  { purpose, cookieToken }: { purpose: string; cookieToken: string },
  sealing: Pick<Sealing, 'mac'>,
): Buffer {
  const text = JSON.stringify([purpose, cookieToken, head.toString('base64url')]);
  return Buffer.from(sealing.mac('challenge', text), 'base64url').subarray(0, macBytes);
}
