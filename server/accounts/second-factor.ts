import { insertAuditEvent } from '#db/audit';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#model/clock';
import { hashSecret } from '#secrets/secrets';
import {
  findPasswordHash,
  findTotp,
  listPasskeys,
  spendRecoveryCode,
  spendTotpStep,
} from '#db/authenticators';
import { findUser } from '#db/people';
import { hasIdentity } from '#db/identities';
import type { Session } from '#db/sessions';
import type { Db } from '#db/transaction';
import { AccountRefusal } from './account-refusal.ts';
import { recoveryHash, totpStep } from './authenticator-app.ts';
import { issueChallenge, spendChallenge } from './challenges.ts';
import { beginGuess, codeSubject, placeOf } from './guess-limit.ts';
import type { IdentityProvider } from './openid-provider.ts';
import type { Sealing } from '#secrets/master-key';
import type { Visit } from './sessions.ts';

export interface SecondFactorPorts {
  readonly db: Db;
  readonly sealing: Sealing;
  readonly refusals: RefusalLog;
  readonly clock: Clock;
}

export type SecondFactor =
  | { readonly outcome: 'proved' }
  /** A wrong code, a used one, or an unknown recovery code. Deliberately not distinguished. */
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'wait'; readonly waitSeconds: number };

/**
 * A challenge proving that this browser entered the right password, for the page that asks for the code. Call it only
 * after checking the password. `undefined` if the person has no authenticator app and the password suffices.
 *
 * @throws {AccountRefusal} `sign_in_expired` if the person has no password
 */
export async function askSecondFactor(
  userId: string,
  cookieToken: string,
  ports: Pick<SecondFactorPorts, 'db' | 'sealing' | 'clock'>,
): Promise<string | undefined> {
  const totp = await findTotp(ports.db, userId);
  if (totp?.confirmedAt === undefined) return undefined;
  const purpose = await purposeOf(userId, ports);
  if (purpose === undefined) throw new AccountRefusal('sign_in_expired', 'there is no password');
  return issueChallenge(purpose, cookieToken, ports);
}

/**
 * Checks that the code is the current one and unused, or a recovery code, which is then deleted. Guesses are throttled by
 * person and place, even if correct passwords were entered in between.
 *
 * RFC 6238 §5.2, NIST SP 800-63B-4 §3.2.2
 *
 * @throws {AccountRefusal} `sign_in_expired` unless this browser entered the right password in the last five minutes and
 * the person still has the app
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
  const { db, clock } = ports;
  const now = clock.now();
  const { address } = visit;
  const purpose = await purposeOf(userId, ports);
  const isProved =
    purpose !== undefined && (await spendChallenge({ challenge, purpose, cookieToken }, ports));
  if (!isProved) {
    await noteUnproved(userId, visit, ports);
    throw new AccountRefusal('sign_in_expired', 'no password was proved, or too long ago');
  }
  const totp = await findTotp(db, userId);
  if (totp?.confirmedAt === undefined) {
    throw new AccountRefusal('sign_in_expired', 'the authenticator app was removed meanwhile');
  }
  const place = await placeOf(userId, { address, deviceToken }, { db, now });
  const guess = await beginGuess({ subject: codeSubject(userId), place }, { db, now });
  if (guess.waitSeconds > 0) return { outcome: 'wait', waitSeconds: guess.waitSeconds };
  const target = await proof({ ...totp, code, now }, ports);
  await insertAuditEvent(ports.db, {
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

/** The kind of factor that matched, for the log; `undefined` if none did. */
async function proof(
  { code, now, ...totp }: { userId: string; sealedSecret: string; code: string; now: number },
  { db, sealing }: SecondFactorPorts,
): Promise<'code' | 'recovery code' | undefined> {
  const step = totpStep(code, totp, { sealing, now });
  if (step !== undefined) return (await spendTotpStep(db, totp.userId, step)) ? 'code' : undefined;
  const hash = recoveryHash(totp.userId, code);
  if (hash === undefined) return undefined;
  return (await spendRecoveryCode(db, totp.userId, hash)) ? 'recovery code' : undefined;
}

/** Counts invalid challenges instead of auditing each, because anyone can send any number. Ignores unknown people. */
async function noteUnproved(
  userId: string,
  { address, requestId }: Visit,
  { db, refusals }: SecondFactorPorts,
): Promise<void> {
  if (!(await findUser(db, userId))) return;
  const where = { organization: undefined, target: 'challenge', address, requestId };
  await refusals.note({ actor: `user:${userId}`, action: 'sign-in', ...where });
}

/**
 * Names the first factor and the current password, so that the proof becomes invalid when the password is replaced.
 * Passkeys and single sign-on count as two factors and ask for no code, so without a password there is no purpose.
 */
async function purposeOf(
  userId: string,
  { db }: Pick<SecondFactorPorts, 'db'>,
): Promise<string | undefined> {
  const hash = await findPasswordHash(db, userId);
  return hash === undefined ? undefined : `code ${userId} after password ${hashSecret(hash)}`;
}

export interface SecondFactorFirstPorts {
  readonly db: Db;
  /** Set if single sign-on is configured. */
  readonly identityProvider: Pick<IdentityProvider, 'issuer'> | undefined;
}

/**
 * Throws unless the person may change how they sign in. With a passkey or a linked account of the OpenID provider, that
 * requires a session with two factors. Otherwise an attacker who knows only the password could add a factor of their own.
 * Authenticator apps need no check here, because the password never works without the code. NIST SP 800-63B-4 §4.1.2
 *
 * @throws {AccountRefusal} `passkey_first`, `provider_first`
 */
export async function checkSecondFactorFirst(
  { userId, factors }: Pick<Session, 'userId' | 'factors'>,
  { db, identityProvider: provider }: SecondFactorFirstPorts,
): Promise<void> {
  if (factors === 2) return;
  if ((await listPasskeys(db, userId)).length > 0) throw new AccountRefusal('passkey_first');
  const isLinked = provider && (await hasIdentity(db, provider.issuer, userId));
  if (isLinked) throw new AccountRefusal('provider_first');
}
