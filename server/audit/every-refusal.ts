import type { Clock } from '#clock/clock';
import type { AuditLog } from './audit-log.ts';
import type { RefusalLog } from './counted-refusals.ts';

/** Writes every refusal down by itself: for who has the machine, and fills its disk in other ways. */
export function everyRefusal({
  audit,
  clock,
}: {
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}): RefusalLog {
  return {
    note: (refusal) => audit.append({ ...refusal, at: clock.now(), outcome: 'refused' }),
  };
}
