import { setImmediate as afterOtherWork } from 'node:timers/promises';

import { type RawBuilder, sql } from 'kysely';

import { indexedColumns, SubjectSeconds } from './call-seconds.ts';
import { callIdAt, callIdLetters, callQuarterMs, ownCallLetters, writtenAtMs } from './calls.ts';
import { inParts, isPostgres, quickTransaction, type Db } from './transaction.ts';

// The index of recorded calls. Once a quarter of an hour is over, `indexQuarter` writes for each subject, such as a person or a tool, in
// which seconds it has calls. `find-calls.ts` reads only the rows of seconds in which all subjects of its filter have calls.

/** How many rows of a quarter one query reads: SQLite blocks the process while it reads. */
const rowsAtOnce = 1000;
/** How many rows one query counts. */
const countedAtOnce = 5000;
/** How long a claim is valid. A process that has not indexed its quarter by then is taken to have ended. */
const claimValidMs = 600_000;

export interface CallQuarter {
  readonly organizationId: string;
  readonly quarter: number;
  /** Distinguishes this claim from others. */
  readonly claimedAtMs: number;
}

/** When the newest call before this time was written, in milliseconds. */
export async function newestCallBefore(
  db: Db,
  organizationId: string,
  ms: number,
): Promise<number | undefined> {
  const newest = await db
    .selectFrom('call_record')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('id', '<', callIdAt(ms))
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return newest && writtenAtMs(newest.id);
}

/** Quarters from `low` (inclusive) to `high` (exclusive) that are not indexed, the newest first. */
export async function unindexedQuarters(
  db: Db,
  organizationId: string,
  low: number,
  high: number,
): Promise<readonly number[]> {
  const rows = await db
    .selectFrom('call_quarter')
    .select('quarter')
    .where('organization_id', '=', organizationId)
    .where('quarter', '>=', low)
    .where('quarter', '<', high)
    .where('calls', 'is not', null)
    .execute();
  const indexed = new Set(rows.map(({ quarter }) => quarter));
  return Array.from({ length: high - low }, (_, place) => high - 1 - place).filter(
    (quarter) => !indexed.has(quarter),
  );
}

/**
 * Claims the given quarters that are not indexed and that no other process is about to index, and returns them. Rows that are being
 * written at that time are committed a moment later: wait for that before `indexQuarter`.
 */
export async function claimQuarters(
  db: Db,
  organizationId: string,
  quarters: readonly number[],
  nowMs: number,
): Promise<readonly CallQuarter[]> {
  if (quarters.length === 0) return [];
  const { rows } = await sql<{ quarter: number }>`
    insert into call_quarter (organization_id, quarter, claimed_at_ms)
    select ${organizationId}, cast(given.value ->> 0 as bigint), cast(${nowMs} as bigint)
    from ${elementsOf(
      db,
      quarters.map((quarter) => [quarter]),
    )} where true
    on conflict (organization_id, quarter) do update set claimed_at_ms = excluded.claimed_at_ms
    where call_quarter.calls is null and call_quarter.claimed_at_ms < ${nowMs - claimValidMs}
    returning quarter`.execute(db);
  return rows.map(({ quarter }) => ({ organizationId, quarter, claimedAtMs: nowMs }));
}

/** Ids from `low` (inclusive) to `high` (exclusive). */
interface IdRange {
  readonly low: string;
  readonly high: string;
}

/**
 * Writes the index of a claimed quarter. If a call of the quarter ends meanwhile, the quarter has no index until it is claimed again.
 * Reads and writes in small steps.
 *
 * @param noted the calls of the quarter that this process has written. If the quarter has no other rows of this process, only the rows of
 * other processes are read.
 */
export async function indexQuarter(
  db: Db,
  claimed: CallQuarter,
  noted?: SubjectSeconds,
): Promise<void> {
  const { organizationId, quarter, claimedAtMs } = claimed;
  const others = noted && (await partsOfOthers(db, claimed, noted.calls));
  const subjects = (others && noted) ?? new SubjectSeconds(quarter);
  for (const part of others ?? [rangeOf(claimed)]) {
    await noteRows(db, { organizationId, ...part, isOfOthers: others !== undefined }, subjects);
  }
  // If a power failure loses these rows, the quarter is indexed again.
  for (const part of inParts(subjects.entries())) {
    await quickTransaction(db, async (tx) => {
      await sql`
        insert into call_subject (organization_id, quarter, kind, subject, seconds)
        select ${organizationId}, cast(${quarter} as bigint), given.value ->> 0, given.value ->> 1, given.value ->> 2
        from ${elementsOf(tx, part)} where true
        on conflict (organization_id, quarter, kind, subject) do update set seconds = excluded.seconds`.execute(
        tx,
      );
    });
    await afterOtherWork();
  }
  await quickTransaction(db, async (tx) => {
    await tx
      .updateTable('call_quarter')
      .set({ calls: subjects.calls, seconds: subjects.busySeconds })
      .where('organization_id', '=', organizationId)
      .where('quarter', '=', quarter)
      .where('claimed_at_ms', '=', claimedAtMs)
      .execute();
  });
}

function rangeOf({ quarter }: CallQuarter): IdRange {
  return {
    low: callIdAt(quarter * callQuarterMs),
    high: callIdAt((quarter + 1) * callQuarterMs),
  };
}

/** Whether this process wrote a row. */
const isOwn = sql<boolean>`substr(id, ${sql.lit(callIdLetters - ownCallLetters.length + 1)}) = ${ownCallLetters}`;

/** The parts of a quarter with rows of other processes; `undefined` unless it has exactly `ownCalls` rows of this process. */
async function partsOfOthers(
  db: Db,
  claimed: CallQuarter,
  ownCalls: number,
): Promise<readonly IdRange[] | undefined> {
  const parts: IdRange[] = [];
  const { high } = rangeOf(claimed);
  let { low } = rangeOf(claimed);
  let own = 0;
  for (;;) {
    const { rows } = await sql<{ calls: number; own: number | null; last: string | null }>`
      select count(*) as calls, sum(case when ${isOwn} then 1 else 0 end) as own, max(id) as last from (
        select id from call_record
        where organization_id = ${claimed.organizationId} and id >= ${low} and id < ${high}
        order by id limit ${countedAtOnce}) as part`.execute(db);
    const [part] = rows;
    if (!part || part.last === null) break;
    const end = `${part.last}0`;
    own += part.own ?? 0;
    if (part.calls > (part.own ?? 0)) parts.push({ low, high: end });
    if (own > ownCalls) return undefined;
    if (part.calls < countedAtOnce) break;
    low = end;
    await afterOtherWork();
  }
  return own === ownCalls ? parts : undefined;
}

/** Notes the rows of a part: all of them, or those of other processes. */
async function noteRows(
  db: Db,
  part: IdRange & { readonly organizationId: string; readonly isOfOthers: boolean },
  subjects: SubjectSeconds,
): Promise<void> {
  let { low } = part;
  for (;;) {
    const rows = await db
      .selectFrom('call_record')
      .select(['id', ...indexedColumns])
      .where('organization_id', '=', part.organizationId)
      .where('id', '>=', low)
      .where('id', '<', part.high)
      .$if(part.isOfOthers, (query) => query.where(sql<boolean>`not ${isOwn}`))
      .orderBy('id')
      .limit(rowsAtOnce)
      .execute();
    for (const row of rows) subjects.noteRow(row);
    const last = rows.at(-1);
    if (!last || rows.length < rowsAtOnce) break;
    low = `${last.id}0`;
    await afterOtherWork();
  }
}

/** A table `given` with a row for each of these lists: `given.value ->> 0` is the first element of the list, as text. */
export function elementsOf(
  db: Db,
  list: readonly (readonly (string | number)[])[],
): RawBuilder<unknown> {
  const text = JSON.stringify(list);
  return isPostgres(db)
    ? sql`json_array_elements(${text}::json) as given(value)`
    : sql`json_each(${text}) as given`;
}
