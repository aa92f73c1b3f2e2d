import { randomBytes } from 'node:crypto';

import { CompiledQuery } from 'kysely';

import { type CallRecord, callRetentionDays } from '#model/calls';
import { addGaps, type NodeGap } from './call-gaps.ts';
import type { Schema } from './schema.ts';
import { ImmediateAdapter } from './sqlite/immediate-adapter.ts';
import { isPostgres, quickTransaction, transaction, type Db } from './transaction.ts';

// Recorded calls. A row has no index but its primary key, so that writing it stays cheap: `call-index.ts` indexes rows afterwards.

/** The index is divided into quarters of an hour, by the time at which rows were written. */
export const callQuarterMs = 900_000;
export const callIdLetters = 24;

let lastId = 0;
let lastMs = Number.NaN;
let lastBeginning = '';
/** The letters that the ids of this process end with. */
export const ownCallLetters = randomBytes(4).toString('hex');

/** An id that sorts by the time at which a row is written and, within a process, by order of creation. 24 letters. */
export function newCallRecordId(nowMs: number): string {
  lastId = (lastId + 1) % 0x1_0000;
  // Most rows of a batch are made in the same millisecond.
  if (nowMs !== lastMs) lastBeginning = callIdAt(nowMs);
  lastMs = nowMs;
  return `${lastBeginning}${lastId.toString(16).padStart(4, '0')}${ownCallLetters}`;
}

/** When a row was written, in milliseconds since 1970. */
export function writtenAtMs(id: string): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

/** A lower bound of ids: no id of this millisecond or a later one is less. */
export function callIdAt(ms: number): string {
  return Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
}

/** The number of a quarter of an hour since 1970. */
export function callQuarterOf(ms: number): number {
  return Math.floor(ms / callQuarterMs);
}

/** The new count of a row whose call was repeated since the row was written. */
export interface CallRepetitions {
  readonly organizationId: string;
  readonly id: string;
  /** How often the call has happened by now. */
  readonly times: number;
}

/** The rows and changes that one transaction writes. */
export interface CallWrites {
  readonly calls: readonly CallRecord[];
  readonly repeated: readonly CallRepetitions[];
  /** Calls that have ended and whose rows were written when they began. */
  readonly ended: readonly CallRecord[];
  /** The gaps for calls that are not recorded, or whose end is not recorded. */
  readonly gaps: readonly NodeGap[];
  /** Whether the rows must be on disk before the promise resolves. */
  readonly isDurable: boolean;
}

/**
 * How many rows one transaction should write. A transaction costs SQLite more than its rows do; on a busy PostgreSQL, a large one takes
 * tens of milliseconds.
 */
export function callsATransaction(db: Db): number {
  return isPostgres(db) ? 250 : 500;
}

/** Writes rows, numbers of repetitions, ends and gaps in one transaction. */
export async function writeCalls(
  db: Db,
  { calls, repeated, ended, gaps, isDurable }: CallWrites,
): Promise<void> {
  await (isDurable ? transaction : quickTransaction)(db, async (tx) => {
    await forEachRow(tx, insertCall, calls.map(toRow));
    await forEachRow(
      tx,
      updateTimes,
      repeated.map(({ times, organizationId, id }) => [times, organizationId, id]),
    );
    await forEachRow(
      tx,
      updateEnd,
      ended.map((call) => [
        call.callId,
        call.durationMs ?? null,
        call.account,
        call.end,
        call.error ?? null,
        call.status ?? null,
        call.bytesOut,
        call.organizationId,
        call.id,
      ]),
    );
    // A call may end long after its row was written and indexed.
    await forEachRow(tx, forgetQuarter, quartersOf(ended));
    await addGaps(tx, gaps);
  });
}

function quartersOf(calls: readonly CallRecord[]): readonly (readonly Value[])[] {
  const found = new Map<string, readonly Value[]>();
  for (const { organizationId, id } of calls) {
    const quarter = callQuarterOf(writtenAtMs(id));
    found.set(`${organizationId} ${quarter}`, [organizationId, quarter]);
  }
  return [...found.values()];
}

type Value = string | number | null;
type ColumnType = 'text' | 'bigint' | 'integer';

const recordColumns = {
  organization_id: 'text',
  id: 'text',
  call_id: 'text',
  started_at_ms: 'bigint',
  duration_ms: 'bigint',
  node: 'text',
  request_id: 'text',
  trace_id: 'text',
  era: 'text',
  person_id: 'text',
  person_name: 'text',
  credential_type: 'text',
  credential_id: 'text',
  credential_name: 'text',
  application: 'text',
  application_source: 'text',
  address: 'text',
  endpoint_id: 'text',
  endpoint_name: 'text',
  target_id: 'text',
  target_name: 'text',
  account: 'text',
  method: 'text',
  subject: 'text',
  outcome: 'text',
  error: 'text',
  status: 'integer',
  bytes_in: 'bigint',
  bytes_out: 'bigint',
  times: 'integer',
  device_id: 'text',
} as const satisfies Record<keyof Schema['call_record'], ColumnType>;

/** A statement that writes rows from their values: SQLite executes `each` for each row, PostgreSQL executes `all` once for all rows. */
interface RowStatement {
  readonly each: string;
  /** Each parameter is a list with the values of one column. */
  readonly all: string;
}

const insertCall = insertOf('call_record', recordColumns);
const updateTimes = updateOf(['times']);
const updateEnd = updateOf([
  'call_id',
  'duration_ms',
  'account',
  'outcome',
  'error',
  'status',
  'bytes_out',
]);

const forgetQuarter: RowStatement = {
  each: 'delete from call_quarter where organization_id = ? and quarter = ?',
  all: `delete from call_quarter using ${unnested(['text', 'bigint'])} as given (organization_id, quarter)
    where call_quarter.organization_id = given.organization_id and call_quarter.quarter = given.quarter`,
};

/** Inserts rows, except those whose key exists. */
function insertOf(table: string, columns: Readonly<Record<string, ColumnType>>): RowStatement {
  const names = Object.keys(columns);
  const into = `insert into ${table} (${names.join(', ')})`;
  const unlessKnown = 'on conflict do nothing';
  return {
    each: `${into} values (${names.map(() => '?').join(', ')}) ${unlessKnown}`,
    all: `${into} select * from ${unnested(Object.values(columns))} ${unlessKnown}`,
  };
}

/** Changes these columns of recorded calls. The values are those of the columns, then those of the primary key. */
function updateOf(changed: readonly (keyof typeof recordColumns)[]): RowStatement {
  const key = ['organization_id', 'id'] as const;
  const columns = [...changed, ...key];
  const given = `${unnested(columns.map((name) => recordColumns[name]))} as given (${columns.join(', ')})`;
  const isIt = key.map((name) => `call_record.${name} = given.${name}`).join(' and ');
  return {
    each: `update call_record set ${changed.map((name) => `${name} = ?`).join(', ')} where ${key.map((name) => `${name} = ?`).join(' and ')}`,
    all: `update call_record set ${changed.map((name) => `${name} = given.${name}`).join(', ')} from ${given} where ${isIt}`,
  };
}

function unnested(types: readonly ColumnType[]): string {
  return `unnest(${types.map((type, place) => `$${place + 1}::${type}[]`).join(', ')})`;
}

async function forEachRow(
  tx: Db,
  { each, all }: RowStatement,
  rows: readonly (readonly Value[])[],
): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const { adapter } = tx.getExecutor();
  if (adapter instanceof ImmediateAdapter) return adapter.runEach(each, rows);
  const columns = first.map((_, place) => arrayText(rows.map((row) => row[place] ?? null)));
  await tx.executeQuery(CompiledQuery.raw(all, columns));
}

/**
 * The text of an array. The driver would take twice as long to make it.
 *
 * PostgreSQL "Array Input and Output Syntax"
 */
function arrayText(values: readonly Value[]): string {
  const texts = values.map((value) => {
    if (typeof value !== 'string') return value ?? 'null';
    return `"${/["\\]/.test(value) ? value.replaceAll(/["\\]/g, String.raw`\$&`) : value}"`;
  });
  return `{${texts.join(',')}}`;
}

/** The values of `recordColumns`. */
function toRow(call: CallRecord): Value[] {
  return [
    call.organizationId,
    call.id,
    call.callId,
    call.startedAtMs,
    call.durationMs ?? null,
    call.node,
    call.requestId,
    call.traceId ?? null,
    call.era,
    call.person?.id ?? null,
    call.person?.name ?? null,
    call.credential.type,
    call.credential.id,
    call.credential.name,
    call.application?.text ?? null,
    call.application?.source ?? null,
    call.address ?? null,
    call.endpoint.id,
    call.endpoint.name,
    call.target.id,
    call.target.name,
    call.account,
    call.method ?? null,
    call.subject ?? null,
    call.end,
    call.error ?? null,
    call.status ?? null,
    call.bytesIn,
    call.bytesOut,
    call.times,
    call.deviceId ?? null,
  ];
}

/** Deletes calls that were written before a time, at most `limit` of them. Returns how many were deleted. */
export async function deleteOldCalls(
  db: Db,
  { organizationId, beforeMs, limit }: { organizationId: string; beforeMs: number; limit: number },
): Promise<number> {
  const old = await db
    .selectFrom('call_record')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('id', '<', callIdAt(beforeMs))
    .orderBy('id')
    .limit(limit)
    .execute();
  const last = old.at(-1);
  if (!last) return 0;
  await quickTransaction(db, async (tx) => {
    await tx
      .deleteFrom('call_record')
      .where('organization_id', '=', organizationId)
      .where('id', '<=', last.id)
      .execute();
    // The last step also deletes the index of the quarter that keeps some calls: that quarter is then read as a whole.
    const isLast = old.length < limit;
    const before = isLast ? callQuarterOf(beforeMs) + 1 : callQuarterOf(writtenAtMs(last.id));
    await deleteCallIndex(tx, organizationId, before);
  });
  return old.length;
}

/**
 * The first organization, by id, after `after` that has calls. If it no longer exists, its `retentionDays` are
 * `undefined`. Reads one entry of an index, however many calls there are.
 */
export async function nextOrganizationWithCalls(
  db: Db,
  after: string,
): Promise<{ readonly id: string; readonly retentionDays: number | undefined } | undefined> {
  const first = await db
    .selectFrom('call_record')
    .select('organization_id as id')
    .where('organization_id', '>', after)
    .orderBy('organization_id')
    .limit(1)
    .executeTakeFirst();
  if (!first) return undefined;
  const row = await db
    .selectFrom('organization')
    .select('call_retention_days')
    .where('id', '=', first.id)
    .executeTakeFirst();
  const retentionDays = row && (row.call_retention_days ?? callRetentionDays.default);
  return { id: first.id, retentionDays };
}

/** Deletes the index of the quarters before this one; default: all of it. */
export async function deleteCallIndex(
  db: Db,
  organizationId: string,
  before = Number.MAX_SAFE_INTEGER,
): Promise<void> {
  for (const table of ['call_quarter', 'call_subject'] as const) {
    await db
      .deleteFrom(table)
      .where('organization_id', '=', organizationId)
      .where('quarter', '<', before)
      .execute();
  }
}
