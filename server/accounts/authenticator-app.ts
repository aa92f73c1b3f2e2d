import { randomInt } from 'node:crypto';

import { Secret, TOTP } from 'otpauth';

import type { Clock, EpochSeconds } from '#model/clock';
import { hashSecret } from '#secrets/secrets';
import {
  insertTotp,
  deleteTotp,
  findTotp,
  markTotpConfirmed,
  replaceRecoveryCodes,
  type Totp,
} from '#db/authenticators';
import type { User } from '#db/people';
import { endSessions, type Session } from '#db/sessions';
import { type Db, transaction } from '#db/transaction';
import { AccountRefusal } from './account-refusal.ts';
import type { Sealing } from '#secrets/master-key';
import { isRecentProof, recordChange, type Visit } from './sessions.ts';

export interface EnrolTotpPorts {
  readonly db: Db;
  readonly sealing: Sealing;
  readonly clock: Clock;
}

interface SignedIn {
  readonly user: User;
  readonly session: Pick<Session, 'createdAt' | 'factors'>;
}

/** The secret for an authenticator app: as base32 text, and as the `otpauth:` URL for a QR code. */
export interface TotpEnrolment {
  readonly secret: string;
  readonly uri: string;
}

/**
 * Starts to enrol an authenticator app. Sign-in does not ask for it until `confirmTotp`.
 *
 * @throws {AccountRefusal} `reauthentication_required`, `enrolled` when the person has a confirmed app
 */
export async function beginTotp(
  { user, session }: SignedIn,
  issuer: string,
  { db, sealing, clock }: EnrolTotpPorts,
): Promise<TotpEnrolment> {
  const createdAt = clock.now();
  if (!isRecentProof(session, createdAt)) throw new AccountRefusal('reauthentication_required');
  const sealedSecret = sealNewTotp(user.id, sealing);
  const enrolling = { userId: user.id, sealedSecret, createdAt };
  if (!(await insertTotp(db, enrolling))) throw new AccountRefusal('enrolled');
  return totpEnrolment(enrolling, { email: user.email, issuer }, sealing);
}

/**
 * Confirms the app by its first code. From then on, signing in with a password requires a code. All sessions of the
 * person end, so that every session has proved both factors. The recovery codes are displayed once.
 *
 * @returns the recovery codes, or the enrolment again if the code is wrong
 * @throws {AccountRefusal} `reauthentication_required`, `enrolled` when no enrolment is pending
 */
export async function confirmTotp(
  { user, session }: SignedIn,
  { code, issuer }: { code: string; issuer: string },
  visit: Visit,
  ports: EnrolTotpPorts,
): Promise<
  | { readonly outcome: 'enrolled'; readonly codes: readonly string[] }
  | { readonly outcome: 'wrong'; readonly enrolment: TotpEnrolment }
> {
  const { db, sealing, clock } = ports;
  const now = clock.now();
  if (!isRecentProof(session, now)) throw new AccountRefusal('reauthentication_required');
  const totp = await findTotp(db, user.id);
  if (!totp || totp.confirmedAt !== undefined) throw new AccountRefusal('enrolled');
  const step = totpStep(code, totp, { sealing, now });
  if (step === undefined) {
    const enrolment = totpEnrolment(totp, { email: user.email, issuer }, sealing);
    return { outcome: 'wrong', enrolment };
  }
  const { codes, hashes: recoveryHashes } = newCodes(user.id);
  await transaction(db, async (tx) => {
    const { sealedSecret } = totp;
    if (!(await markTotpConfirmed(tx, user.id, { sealedSecret, step, now, recoveryHashes }))) {
      throw new AccountRefusal('enrolled');
    }
    await endSessions(tx, user.id);
    await recordChange(user, 'totp.enrol', visit, { db: tx, clock });
  });
  return { outcome: 'enrolled', codes };
}

/**
 * Replaces the recovery codes.
 *
 * @throws {AccountRefusal} `reauthentication_required`, `not_found` without an authenticator app
 */
export async function renewRecoveryCodes(
  signed: SignedIn,
  visit: Visit,
  ports: EnrolTotpPorts,
): Promise<readonly string[]> {
  const { user } = await requireTwoFactors(signed, ports);
  const { codes, hashes } = newCodes(user.id);
  await transaction(ports.db, async (db) => {
    await replaceRecoveryCodes(db, user.id, hashes);
    await recordChange(user, 'recovery-codes.renew', visit, { ...ports, db });
  });
  return codes;
}

/**
 * Removes the authenticator app and its recovery codes.
 *
 * @throws {AccountRefusal} `reauthentication_required`, `not_found` without one
 */
export async function removeTotp(
  signed: SignedIn,
  visit: Visit,
  ports: EnrolTotpPorts,
): Promise<void> {
  const { user } = await requireTwoFactors(signed, ports);
  await transaction(ports.db, async (db) => {
    await deleteTotp(db, user.id);
    await recordChange(user, 'totp.remove', visit, { ...ports, db });
  });
}

async function requireTwoFactors(
  signed: SignedIn,
  { db, clock }: EnrolTotpPorts,
): Promise<SignedIn> {
  const { user, session } = signed;
  const isProved = session.factors === 2 && isRecentProof(session, clock.now());
  if (!isProved) throw new AccountRefusal('reauthentication_required');
  const totp = await findTotp(db, user.id);
  if (totp?.confirmedAt === undefined) throw new AccountRefusal('not_found');
  return signed;
}

function newCodes(userId: string) {
  const codes = mintRecoveryCodes();
  const hashes = codes.map((code) => recoveryHash(userId, code) ?? '');
  return { codes, hashes };
}

const secretBytes = 20;
const periodSeconds = 30;

/** SHA-1, six digits, thirty seconds: the only kind that every authenticator app supports. RFC 6238 §4, §5.2 */
const kind = { algorithm: 'SHA1', digits: 6, period: periodSeconds };

/** A new shared secret, encrypted for one person. */
export function sealNewTotp(userId: string, sealing: Sealing): string {
  return sealing.seal(purposeOf(userId), new Secret({ size: secretBytes }).base32);
}

/** What an authenticator app needs: the secret to type, and the same secret as the URL in a QR code. */
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
 * The time step that the code belongs to: the current one, or an adjacent one because clocks differ. `undefined` if
 * the code is wrong. RFC 6238 §5.2
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

const howMany = 10;
const characters = 16;

/** Without letters that look like digits. Crockford's Base32 */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** Ten recovery codes for a person who loses their authenticator: `k3f9-…`, 80 random bits each. Displayed once. */
export function mintRecoveryCodes(): string[] {
  return Array.from({ length: howMany }, () => {
    const code = Array.from({ length: characters }, () => alphabet[randomInt(alphabet.length)]);
    return code.join('').replaceAll(/(.{4})(?=.)/g, '$1-');
  });
}

/** The hash of a recovery code, in whatever spelling it was typed; `undefined` if `typed` cannot be one. */
export function recoveryHash(userId: string, typed: string): string | undefined {
  const code = typed
    .toLowerCase()
    .replaceAll(/[\s-]/g, '')
    .replaceAll('o', '0')
    .replaceAll(/[il]/g, '1');
  const isOne = code.length === characters && /^[0-9a-hjkmnp-tv-z]+$/.test(code);
  return isOne ? hashSecret(`recovery ${userId} ${code}`) : undefined;
}
