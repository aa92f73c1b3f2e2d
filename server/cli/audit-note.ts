import { insertAuditEvent } from '#db/audit';
import type { Db } from '#db/transaction';
import type { Clock } from '#model/clock';

/** Adds an action of the operator to the audit log, outside any organization. */
export async function noteOperatorAction(
  action: string,
  { db, clock }: { db: Db; clock: Clock },
  target?: string,
): Promise<void> {
  await insertAuditEvent(db, {
    at: clock.now(),
    actor: 'operator',
    organization: undefined,
    action,
    target,
    address: undefined,
    requestId: undefined,
    outcome: 'done',
  });
}
