import { Secret, TOTP } from 'otpauth';

import type { EpochSeconds } from '#clock/clock';
import type { Sealing } from './sealing.ts';
import type { Totp } from './totp-store.ts';

const secretBytes = 20;
const periodSeconds = 30;

/** SHA-1, six digits, thirty seconds: the one kind that every authenticator app reads. RFC 6238 §4, §5.2 */
const kind = { algorithm: 'SHA1', digits: 6, period: periodSeconds };

/** A new shared secret, sealed for one person. */
export function sealNewTotp(userId: string, sealing: Sealing): string {
  return sealing.seal(purposeOf(userId), new Secret({ size: secretBytes }).base32);
}

/** What an authenticator app needs: the secret to type, and the same as the address behind a QR code. */
export function totpEnrolment(
  { userId, sealedSecret }: Pick<Totp, 'userId' | 'sealedSecret'>,
  { email, issuer }: { email: string; issuer: string },
  sealing: Sealing,
): { secret: string; uri: string } {
  const secret = sealing.open(purposeOf(userId), sealedSecret);
  const uri = new TOTP({ ...kind, issuer, label: email, secret: Secret.fromBase32(secret) });
  return { secret, uri: uri.toString() };
}

/**
 * The step whose code this is: the present one, or one before or after it, as clocks differ. `undefined`
 * for every other text. RFC 6238 §5.2
 */
export function totpStep(
  code: string,
  { userId, sealedSecret }: Pick<Totp, 'userId' | 'sealedSecret'>,
  { sealing, now }: { sealing: Sealing; now: EpochSeconds },
): number | undefined {
  const token = code.replaceAll(/\s/g, '');
  if (!/^\d{6}$/.test(token)) return undefined;
  const secret = Secret.fromBase32(sealing.open(purposeOf(userId), sealedSecret));
  const delta = TOTP.validate({ ...kind, token, secret, timestamp: now * 1000, window: 1 });
  return delta === null ? undefined : Math.floor(now / periodSeconds) + delta;
}

function purposeOf(userId: string): string {
  return `totp ${userId}`;
}
