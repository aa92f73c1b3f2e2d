import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { ConsentStore } from './consent-store.ts';
import type { GrantStore } from './grant-store.ts';

export interface WithdrawGrantPorts {
  readonly grants: GrantStore;
  readonly consents: Pick<ConsentStore, 'forget'>;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}

/**
 * Takes back what a person granted: its tokens count no more, and the same application will have to ask
 * again. `false` when the person has no such grant in force.
 */
export async function withdrawGrant(
  grantId: string,
  userId: string,
  { grants, consents, audit, clock }: WithdrawGrantPorts,
): Promise<boolean> {
  const grant = await grants.byId(grantId);
  if (!grant || grant.userId !== userId) return false;
  await consents.forget(grant);
  if (!(await grants.revoke(grantId, clock.now()))) return false;
  await audit.append({
    at: clock.now(),
    actor: `user:${userId}`,
    organization: grant.serverPath.split('/')[0],
    action: 'grant.withdraw',
    target: grantId,
    address: undefined,
    requestId: undefined,
    outcome: 'done',
  });
  return true;
}
