import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import { PeopleRefusal } from './people-refusal.ts';
import { mintRecoveryCodes, recoveryHash } from './recovery-codes.ts';
import type { Sealing } from './sealing.ts';
import type { Session, SessionStore } from './session-store.ts';
import { sealNewTotp, totpEnrolment, totpStep } from './totp.ts';
import type { RecoveryCodeStore, TotpStore } from './totp-store.ts';
import type { User } from './user.ts';
import type { Visit } from './visit.ts';
import { isRecentProof } from './recent-proof.ts';

export interface EnrolTotpPorts {
  readonly totps: TotpStore;
  readonly recoveryCodes: RecoveryCodeStore;
  readonly sessions: Pick<SessionStore, 'endAll'>;
  readonly sealing: Sealing;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}

interface Signed {
  readonly user: User;
  readonly session: Pick<Session, 'createdAt' | 'factors'>;
}

/** What the person puts into their authenticator app: as text, and as the address behind a QR code. */
export interface TotpEnrolment {
  readonly secret: string;
  readonly uri: string;
}

/**
 * Begins to enrol an authenticator app; it is not asked for until `confirmTotp`.
 *
 * @throws {PeopleRefusal} `proof_old`, `enrolled` when there is one
 */
export async function beginTotp(
  { user, session }: Signed,
  issuer: string,
  { totps, sealing, clock }: EnrolTotpPorts,
): Promise<TotpEnrolment> {
  const createdAt = clock.now();
  if (!isRecentProof(session, createdAt)) throw new PeopleRefusal('proof_old');
  const sealedSecret = sealNewTotp(user.id, sealing);
  const enrolling = { userId: user.id, sealedSecret, createdAt };
  if (!(await totps.begin(enrolling))) throw new PeopleRefusal('enrolled');
  return totpEnrolment(enrolling, { email: user.email, issuer }, sealing);
}

/**
 * Confirms the app by its first code: from now on a password does not do without one. Every session of
 * the person ends, so that each that lives has proved both. The recovery codes are shown once.
 *
 * @returns the codes, or the enrolment again when the code is another one
 * @throws {PeopleRefusal} `proof_old`, `enrolled` when nothing waits to be confirmed
 */
export async function confirmTotp(
  { user, session }: Signed,
  { code, issuer }: { code: string; issuer: string },
  visit: Visit,
  ports: EnrolTotpPorts,
): Promise<
  | { readonly outcome: 'enrolled'; readonly codes: readonly string[] }
  | { readonly outcome: 'wrong'; readonly enrolment: TotpEnrolment }
> {
  const { totps, sealing, sessions, clock } = ports;
  const now = clock.now();
  if (!isRecentProof(session, now)) throw new PeopleRefusal('proof_old');
  const totp = await totps.of(user.id);
  if (!totp || totp.confirmedAt !== undefined) throw new PeopleRefusal('enrolled');
  const step = totpStep(code, totp, { sealing, now });
  if (step === undefined) {
    const enrolment = totpEnrolment(totp, { email: user.email, issuer }, sealing);
    return { outcome: 'wrong', enrolment };
  }
  const { codes, hashes: recoveryHashes } = newCodes(user.id);
  if (!(await totps.confirm(user.id, { step, now, recoveryHashes }))) {
    throw new PeopleRefusal('enrolled');
  }
  await sessions.endAll(user.id);
  await note(user, 'totp.enrol', visit, ports);
  return { outcome: 'enrolled', codes };
}

/**
 * New recovery codes in place of the old ones.
 *
 * @throws {PeopleRefusal} `proof_old`, `not_yours` without an authenticator app
 */
export async function renewRecoveryCodes(
  signed: Signed,
  visit: Visit,
  ports: EnrolTotpPorts,
): Promise<readonly string[]> {
  const { user } = await provedTwice(signed, ports);
  const { codes, hashes } = newCodes(user.id);
  await ports.recoveryCodes.replace(user.id, hashes);
  await note(user, 'recovery-codes.renew', visit, ports);
  return codes;
}

/**
 * Takes the authenticator app and its recovery codes away.
 *
 * @throws {PeopleRefusal} `proof_old`, `not_yours` without one
 */
export async function removeTotp(
  signed: Signed,
  visit: Visit,
  ports: EnrolTotpPorts,
): Promise<void> {
  const { user } = await provedTwice(signed, ports);
  await ports.totps.remove(user.id);
  await note(user, 'totp.remove', visit, ports);
}

async function provedTwice(signed: Signed, { totps, clock }: EnrolTotpPorts): Promise<Signed> {
  const { user, session } = signed;
  const isProved = session.factors === 2 && isRecentProof(session, clock.now());
  if (!isProved) throw new PeopleRefusal('proof_old');
  const totp = await totps.of(user.id);
  if (totp?.confirmedAt === undefined) throw new PeopleRefusal('not_yours');
  return signed;
}

function newCodes(userId: string) {
  const codes = mintRecoveryCodes();
  const hashes = codes.map((code) => recoveryHash(userId, code) ?? '');
  return { codes, hashes };
}

function note(
  { id }: User,
  action: string,
  { address, requestId }: Visit,
  { audit, clock }: EnrolTotpPorts,
): Promise<void> {
  const actor = `user:${id}`;
  const where = { organization: undefined, target: actor, address, requestId };
  return audit.append({ at: clock.now(), actor, action, ...where, outcome: 'done' });
}
