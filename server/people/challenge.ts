import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

import type { Clock, EpochSeconds } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import type { ChallengeStore } from './challenge-store.ts';

const lifeSeconds = 5 * 60;
const timeBytes = 6;
const randomLength = 16;
const proofBytes = 16;

/**
 * Something that one browser must bring back, once, within five minutes: a passkey's challenge, the state
 * of a sign-in elsewhere. Bound to the browser's cookie and to what it is for; nothing is kept until it
 * comes back, so asking for many costs us nothing. Base64url.
 */
export function mintChallenge(purpose: string, cookieToken: string, now: EpochSeconds): string {
  const head = Buffer.alloc(timeBytes + randomLength);
  head.writeUIntBE(now + lifeSeconds, 0, timeBytes);
  randomBytes(randomLength).copy(head, timeBytes);
  return Buffer.concat([head, proof(head, purpose, cookieToken)]).toString('base64url');
}

/** Whether this browser was given the challenge for this purpose, and answers in time and first. */
export async function spendChallenge(
  { challenge, purpose, cookieToken }: { challenge: string; purpose: string; cookieToken: string },
  { challenges, clock }: { challenges: ChallengeStore; clock: Clock },
): Promise<boolean> {
  const bytes = Buffer.from(challenge, 'base64url');
  if (bytes.length !== timeBytes + randomLength + proofBytes) return false;
  if (bytes.toString('base64url') !== challenge) return false;
  const head = bytes.subarray(0, timeBytes + randomLength);
  const given = bytes.subarray(timeBytes + randomLength);
  if (!timingSafeEqual(given, proof(head, purpose, cookieToken))) return false;
  const expiresAt = head.readUIntBE(0, timeBytes);
  const now = clock.now();
  if (expiresAt <= now) return false;
  return challenges.spend(hashSecret(challenge), expiresAt, now);
}

function proof(head: Uint8Array, purpose: string, cookieToken: string): Buffer {
  const mac = createHmac('sha256', cookieToken).update(`challenge ${purpose}\0`).update(head);
  return mac.digest().subarray(0, proofBytes);
}
