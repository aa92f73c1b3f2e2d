import { setImmediate as afterOtherWork } from 'node:timers/promises';

import { type RawBuilder, type Selectable, sql } from 'kysely';

import { callIdAt, callQuarterMs, writtenAtMs } from './calls.ts';
import type { Schema } from './schema.ts';
import { inParts, isPostgres, quickTransaction, type Db } from './transaction.ts';

// The index of recorded calls. Once a quarter of an hour is over, `indexQuarter` reads its rows and writes for each subject, such as a
// person or a tool, in which seconds it has calls. `find-calls.ts` reads only the rows of seconds that all subjects of its filter have.

/** What calls are found by, and the column that has it. */
export const indexedKinds = {
  person: 'person_id',
  credential: 'credential_id',
  application: 'application',
  endpoint: 'endpoint_id',
  target: 'target_id',
  name: 'subject',
  error: 'error',
  end: 'outcome',
} as const satisfies Readonly<Record<string, keyof Schema['call_record']>>;
export type IndexedKind = keyof typeof indexedKinds;

const kindColumns = Object.entries(indexedKinds);

/** The rows of a quarter that are read at once: SQLite blocks the process meanwhile. */
const rowsAtOnce = 1000;
/** Subjects of one kind in a quarter that are written down; the others share the subject `anySubject`. */
const maxSubjects = 2000;
/** The subject of those that are not written down. */
export const anySubject = '';
/** A process that has claimed a quarter and not indexed it by then has ended. */
const claimValidMs = 600_000;

/** The seconds of a subject that has calls in more than half of those that have any: looking for them saves little. */
export const allSeconds = '*';
const letters = 2;
export const quarterSeconds = callQuarterMs / 1000;

/** Seconds of a quarter, ascending, as text: two letters each, a number to the base 36. */
export function secondsText(seconds: readonly number[]): string {
  return seconds.map((second) => second.toString(36).padStart(letters, '0')).join('');
}

/** @param text not `allSeconds` */
export function secondsOf(text: string): number[] {
  return Array.from({ length: text.length / letters }, (_, place) =>
    Number.parseInt(text.slice(place * letters, (place + 1) * letters), 36),
  );
}

/** A quarter of an organization. */
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
 * Claims those of these quarters that are not indexed and that no other process is about to index, and returns them. Rows that were
 * being written meanwhile are committed a moment later: wait for that before `indexQuarter`.
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

/**
 * Writes the index of a claimed quarter. If a call of it ends meanwhile, the quarter stays without index until it is claimed again.
 * Reads and writes in small steps.
 */
export async function indexQuarter(db: Db, claimed: CallQuarter): Promise<void> {
  const { organizationId, quarter, claimedAtMs } = claimed;
  const subjects = new SubjectSeconds();
  let low = callIdAt(quarter * callQuarterMs);
  const high = callIdAt((quarter + 1) * callQuarterMs);
  for (;;) {
    const rows = await db
      .selectFrom('call_record')
      .select(['id', ...kindColumns.map(([, column]) => column)])
      .where('organization_id', '=', organizationId)
      .where('id', '>=', low)
      .where('id', '<', high)
      .orderBy('id')
      .limit(rowsAtOnce)
      .execute();
    for (const row of rows) subjects.note(row, quarter);
    const last = rows.at(-1);
    if (!last || rows.length < rowsAtOnce) break;
    low = `${last.id}0`;
    await afterOtherWork();
  }
  // What is lost in a power failure is indexed again.
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

type IndexedRow = Pick<
  Selectable<Schema['call_record']>,
  'id' | (typeof indexedKinds)[keyof typeof indexedKinds]
>;

/** In which seconds of a quarter each subject has calls. */
class SubjectSeconds {
  readonly #kinds = kindColumns.map(([kind, column]) => ({
    kind,
    column,
    /** Seconds, ascending, by subject. */
    subjects: new Map<string, number[]>(),
  }));
  calls = 0;
  busySeconds = 0;
  #last = -1;

  /** Rows come in the order of their ids. */
  note(row: IndexedRow, quarter: number): void {
    const second = Math.floor((writtenAtMs(row.id) - quarter * callQuarterMs) / 1000);
    this.calls += 1;
    if (second !== this.#last) this.busySeconds += 1;
    this.#last = second;
    for (const { column, subjects } of this.#kinds) {
      const subject = row[column];
      if (subject === null) continue;
      let seconds = subjects.get(subject);
      if (!seconds) {
        const kept = subjects.size < maxSubjects ? subject : anySubject;
        seconds = subjects.get(kept) ?? [];
        subjects.set(kept, seconds);
      }
      if (seconds.length <= quarterSeconds / 2 && seconds.at(-1) !== second) seconds.push(second);
    }
  }

  /** Kind, subject and seconds as text. */
  entries(): (readonly [string, string, string])[] {
    return this.#kinds.flatMap(({ kind, subjects }) =>
      [...subjects].map(([subject, seconds]) => {
        const text = seconds.length > this.busySeconds / 2 ? allSeconds : secondsText(seconds);
        return [kind, subject, text] as const;
      }),
    );
  }
}

/** Each of these lists as the row `given`: `given.value ->> 0` is its first element, as text. */
export function elementsOf(
  db: Db,
  list: readonly (readonly (string | number)[])[],
): RawBuilder<unknown> {
  const text = JSON.stringify(list);
  return isPostgres(db)
    ? sql`json_array_elements(${text}::json) as given(value)`
    : sql`json_each(${text}) as given`;
}
