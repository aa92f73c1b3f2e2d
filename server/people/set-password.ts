import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { AttemptStore } from './attempt-store.ts';
import { accountSubject } from './guess-limit.ts';
import type { EndGrants } from './end-grants.ts';
import type { PasswordStore } from './password-store.ts';
import type { User } from './user.ts';
import type { Visit } from './visit.ts';

export interface SetPasswordPorts {
  readonly passwords: Pick<PasswordStore, 'set'>;
  readonly attempts: Pick<AttemptStore, 'clear'>;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly endGrants: EndGrants;
  readonly clock: Clock;
}

/**
 * Replaces a person's password. Whoever knew the old one is out at once: sessions, grants and tokens of
 * the person end. The caller has checked that the person may, and that the password is a good one, has hashed
 * it, as that can be refused, and gives the stores of one transaction.
 */
export async function setPassword(
  user: User,
  hash: string,
  { address, requestId }: Pick<Visit, 'address' | 'requestId'>,
  { passwords, attempts, audit, endGrants, clock }: SetPasswordPorts,
): Promise<void> {
  const now = clock.now();
  await endGrants(user.id, now);
  await passwords.set(user.id, hash);
  // Until here the old sessions could still allow something.
  await endGrants(user.id, now);
  await attempts.clear(accountSubject(user.email));
  await audit.append({
    at: now,
    actor: `user:${user.id}`,
    organization: undefined,
    action: 'password.set',
    target: `user:${user.id}`,
    address,
    requestId,
    outcome: 'done',
  });
}
