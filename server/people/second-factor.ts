import type { AuditLog } from '#audit/audit-log';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import type { AttemptStore } from './attempt-store.ts';
import { issueChallenge, spendChallenge } from './challenge.ts';
import type { ChallengeStore } from './challenge-store.ts';
import { beginGuess, codeSubject } from './guess-limit.ts';
import type { KnownBrowserStore } from './known-browser-store.ts';
import { placeOf } from './known-browser.ts';
import type { PasswordStore } from './password-store.ts';
import { PeopleRefusal } from './people-refusal.ts';
import { recoveryHash } from './recovery-codes.ts';
import type { Sealing } from './sealing.ts';
import { totpStep } from './totp.ts';
import type { RecoveryCodeStore, TotpStore } from './totp-store.ts';
import type { UserStore } from './user.ts';
import type { Visit } from './visit.ts';

export interface SecondFactorPorts {
  readonly users: Pick<UserStore, 'byId'>;
  readonly totps: Pick<TotpStore, 'of' | 'use'>;
  readonly recoveryCodes: Pick<RecoveryCodeStore, 'use'>;
  readonly passwords: Pick<PasswordStore, 'hashOf'>;
  readonly attempts: AttemptStore;
  readonly knownBrowsers: Pick<KnownBrowserStore, 'people'>;
  readonly challenges: ChallengeStore;
  readonly sealing: Sealing;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly refusals: RefusalLog;
  readonly clock: Clock;
}

export type SecondFactor =
  | { readonly outcome: 'proved' }
  /** A wrong code, one that was used, or a recovery code that nobody has: it is not said which. */
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'wait'; readonly waitSeconds: number };

/**
 * What the page that asks for the code brings back: that this browser proved the password just now. To be asked for
 * only once it has. `undefined` when the person has no authenticator app, so that the password suffices.
 *
 * @throws {PeopleRefusal} `sign_in_late` for somebody without a password
 */
export async function askSecondFactor(
  userId: string,
  cookieToken: string,
  ports: Pick<SecondFactorPorts, 'totps' | 'passwords' | 'sealing' | 'clock'>,
): Promise<string | undefined> {
  const totp = await ports.totps.of(userId);
  if (totp?.confirmedAt === undefined) return undefined;
  const purpose = await purposeOf(userId, ports);
  if (purpose === undefined) throw new PeopleRefusal('sign_in_late', 'there is no password');
  return issueChallenge(purpose, cookieToken, ports);
}

/**
 * Whether the code is the one of this moment, and was not used before; or a recovery code, which is used
 * up. Guesses are slowed down by person and place, whatever passwords were right in between.
 *
 * RFC 6238 §5.2, NIST SP 800-63B-4 §3.2.2
 *
 * @throws {PeopleRefusal} `sign_in_late` unless this browser proved the password within five minutes and the person
 * still has the app
 */
export async function proveSecondFactor(
  {
    userId,
    code,
    challenge,
    deviceToken,
  }: { userId: string; code: string; challenge: string; deviceToken: string | undefined },
  cookieToken: string,
  visit: Visit,
  ports: SecondFactorPorts,
): Promise<SecondFactor> {
  const { totps, attempts, knownBrowsers, clock } = ports;
  const now = clock.now();
  const { address } = visit;
  const purpose = await purposeOf(userId, ports);
  const isProved =
    purpose !== undefined && (await spendChallenge({ challenge, purpose, cookieToken }, ports));
  if (!isProved) {
    await noteUnproved(userId, visit, ports);
    throw new PeopleRefusal('sign_in_late', 'no password was proved, or too long ago');
  }
  const totp = await totps.of(userId);
  if (totp?.confirmedAt === undefined) {
    throw new PeopleRefusal('sign_in_late', 'the authenticator app was removed meanwhile');
  }
  const place = await placeOf(userId, { address, deviceToken }, { knownBrowsers, now });
  const guess = await beginGuess({ subject: codeSubject(userId), place }, { attempts, now });
  if (guess.waitSeconds > 0) return { outcome: 'wait', waitSeconds: guess.waitSeconds };
  const target = await proof({ ...totp, code, now }, ports);
  await ports.audit.append({
    at: now,
    actor: `user:${userId}`,
    organization: undefined,
    action: 'sign-in',
    target: target ?? 'code',
    address,
    requestId: visit.requestId,
    outcome: target === undefined ? 'refused' : 'done',
  });
  if (target === undefined) return { outcome: 'refused' };
  await guess.succeeded();
  return { outcome: 'proved' };
}

/** What proved it, for the log; `undefined` when nothing did. */
async function proof(
  { code, now, ...totp }: { userId: string; sealedSecret: string; code: string; now: number },
  { totps, recoveryCodes, sealing }: SecondFactorPorts,
): Promise<'code' | 'recovery code' | undefined> {
  const step = totpStep(code, totp, { sealing, now });
  if (step !== undefined) return (await totps.use(totp.userId, step)) ? 'code' : undefined;
  const hash = recoveryHash(totp.userId, code);
  if (hash === undefined) return undefined;
  return (await recoveryCodes.use(totp.userId, hash)) ? 'recovery code' : undefined;
}

/** Anybody can send this without end: it is counted, not listed, and not at all for a person who does not exist. */
async function noteUnproved(
  userId: string,
  { address, requestId }: Visit,
  { users, refusals }: SecondFactorPorts,
): Promise<void> {
  if (!(await users.byId(userId))) return;
  const where = { organization: undefined, target: 'challenge', address, requestId };
  await refusals.note({ actor: `user:${userId}`, action: 'sign-in', ...where });
}

/**
 * Names the first factor, and which password it was, so that its proof ends once that is replaced. A passkey and
 * single sign-on count as two factors: after them no code is asked for, so without a password there is no purpose.
 */
async function purposeOf(
  userId: string,
  { passwords }: Pick<SecondFactorPorts, 'passwords'>,
): Promise<string | undefined> {
  const hash = await passwords.hashOf(userId);
  return hash === undefined ? undefined : `code ${userId} after password ${hashSecret(hash)}`;
}
