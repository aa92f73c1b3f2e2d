import { sql } from 'kysely';

import { type CallGap, callRetentionDays, gapReasons } from '#model/calls';
import type { EpochSeconds } from '#model/clock';
import type { Db } from './transaction.ts';

// The gaps in Activity: calls that were answered but not recorded, or whose end was not recorded. One row per organization, minute, node, reason.

const minuteMs = 60_000;
/** The most rows that one search reads. */
const maxRows = 1000;
const maxShown = 20;

export interface NodeGap extends CallGap {
  readonly organizationId: string;
  readonly node: string;
}

/** Adds the calls of each gap to the row for its minute, node and reason, or inserts the row. */
export async function addGaps(db: Db, gaps: readonly NodeGap[]): Promise<void> {
  for (const { organizationId, node, reason, fromMs, untilMs, calls } of gaps) {
    await db
      .insertInto('call_gap')
      .values({
        organization_id: organizationId,
        minute: Math.floor(fromMs / minuteMs),
        node,
        reason,
        from_ms: fromMs,
        until_ms: untilMs,
        calls,
      })
      .onConflict((conflict) =>
        conflict.columns(['organization_id', 'minute', 'node', 'reason']).doUpdateSet({
          calls: sql<number>`call_gap.calls + excluded.calls`,
          until_ms: sql<number>`case when call_gap.until_ms > excluded.until_ms then call_gap.until_ms else excluded.until_ms end`,
        }),
      )
      .execute();
  }
}

/**
 * At most twenty gaps that overlap a time range, newest first. Gaps of one reason, on any node, that are at most a minute apart are merged.
 * `fromMs` is inclusive, `untilMs` exclusive.
 */
export async function findGaps(
  db: Db,
  organizationId: string,
  {
    fromMs = 0,
    untilMs,
  }: { readonly fromMs?: number | undefined; readonly untilMs?: number | undefined },
): Promise<readonly CallGap[]> {
  const rows = await db
    .selectFrom('call_gap')
    .select(['reason', 'from_ms', 'until_ms', 'calls'])
    .where('organization_id', '=', organizationId)
    .where('until_ms', '>=', fromMs)
    .$if(untilMs !== undefined, (query) => query.where('from_ms', '<', untilMs ?? 0))
    .orderBy('minute', 'desc')
    .limit(maxRows)
    .execute();
  const gaps = rows.map(({ reason, from_ms: from, until_ms: until, calls }) => ({
    reason: gapReasons.find((known) => known === reason) ?? 'unknown',
    fromMs: from,
    untilMs: until,
    calls,
  }));
  return gapReasons
    .flatMap((reason) => joined(gaps.filter((gap) => gap.reason === reason)))
    .toSorted((one, other) => other.untilMs - one.untilMs)
    .slice(0, maxShown);
}

/** Merges gaps of one reason that are at most a minute apart. */
function joined(gaps: readonly CallGap[]): readonly CallGap[] {
  const found: CallGap[] = [];
  for (const gap of gaps.toSorted((one, other) => one.fromMs - other.fromMs)) {
    const last = found.at(-1);
    if (!last || gap.fromMs > last.untilMs + minuteMs) found.push(gap);
    else {
      const untilMs = Math.max(last.untilMs, gap.untilMs);
      found[found.length - 1] = { ...last, untilMs, calls: last.calls + gap.calls };
    }
  }
  return found;
}

/** Deletes gaps that are older than the call retention of their organization, and all gaps of deleted organizations. */
export async function deleteOldGaps(db: Db, now: EpochSeconds): Promise<void> {
  const organizations = await db
    .selectFrom('call_gap')
    .leftJoin('organization', 'organization.id', 'call_gap.organization_id')
    .select(['call_gap.organization_id as id', 'organization.id as known', 'call_retention_days'])
    .distinct()
    .execute();
  for (const { id, known, call_retention_days: days } of organizations) {
    const keptDays = known === null ? undefined : (days ?? callRetentionDays.default);
    await db
      .deleteFrom('call_gap')
      .where('organization_id', '=', id)
      .$if(keptDays !== undefined, (query) =>
        query.where('until_ms', '<', (now - (keptDays ?? 0) * 86_400) * 1000),
      )
      .execute();
  }
}
