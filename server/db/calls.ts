import { randomBytes } from 'node:crypto';

import { CompiledQuery } from 'kysely';

import { type CallEnd, type CallRecord, callRetentionDays } from '#model/calls';
import type { Schema } from './schema.ts';
import { isPostgres, quickTransaction, transaction, type Db } from './transaction.ts';

// Recorded calls. A row has no index but its primary key, so that writing it stays cheap. For each subject, such as a person or a
// tool, `call_period` has the periods of five minutes in which it was called, by which `find-calls.ts` finds rows.

/** What calls are found by. Each has periods of its own, for all of its calls and for those that failed. */
export const callSubjects = [
  'person',
  'credential',
  'application',
  'endpoint',
  'target',
  'name',
  'error',
] as const;
export type CallSubjectKind = (typeof callSubjects)[number];

export const callPeriodMs = 300_000;
/** The length of an id. */
export const callIdLetters = 24;

/** The subject of a period that has more subjects than are written down: any of them may have calls in it. */
export const anySubject = '';

let lastId = 0;
/** Distinguishes the ids of processes. */
const ownLetters = randomBytes(4).toString('hex');

/** An id that sorts by the time at which a row is written and, within a process, by order of creation. 24 letters. */
export function newCallRecordId(nowMs: number): string {
  lastId = (lastId + 1) % 0x1_0000;
  return `${callIdAt(nowMs)}${lastId.toString(16).padStart(4, '0')}${ownLetters}`;
}

/** When a row was written, in milliseconds since 1970. */
export function writtenAtMs(id: string): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

/** What all ids of this millisecond and later ones are not less than. */
export function callIdAt(ms: number): string {
  return Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
}

export function callPeriodOf(id: string): number {
  return Math.floor(writtenAtMs(id) / callPeriodMs);
}

/** A subject with a call in a period. */
export interface CallPeriod {
  readonly organizationId: string;
  readonly kind: string;
  readonly subject: string;
  readonly period: number;
}

/** Whether calls that ended so are looked for as failed. */
export function isFailed(end: CallEnd): boolean {
  return end !== 'ok' && end !== 'cancelled';
}

/** The name under which periods of a subject are stored: of all its calls, or of those that failed. */
export function periodKind(kind: CallSubjectKind | 'end', failed: boolean): string {
  return failed ? `${kind}!` : kind;
}

/** The subjects that a call is found by. */
export function subjectsOf(call: CallRecord): readonly (readonly [CallSubjectKind, string])[] {
  const all: readonly (readonly [CallSubjectKind, string | undefined])[] = [
    ['person', call.person?.id],
    ['credential', call.credential.id],
    ['application', call.application?.text],
    ['endpoint', call.endpoint.id],
    ['target', call.target.id],
    ['name', call.subject],
    ['error', call.error],
  ];
  return all.flatMap(([kind, subject]) =>
    subject === undefined ? [] : [[kind, subject] as const],
  );
}

/** Counts that were added to a row since it was written. */
export interface CallRepetitions {
  readonly organizationId: string;
  readonly id: string;
  /** How often it has happened by now. */
  readonly times: number;
}

/** What one transaction writes. */
export interface CallWrites {
  readonly calls: readonly CallRecord[];
  readonly periods: readonly CallPeriod[];
  readonly repeated: readonly CallRepetitions[];
  /** Calls whose rows were written when they began, as they ended. */
  readonly ended: readonly CallRecord[];
  /** Whether the rows must be on disk before the promise resolves. */
  readonly isDurable: boolean;
}

/** Writes rows, periods, ends and numbers of repetitions in one transaction. */
export async function writeCalls(
  db: Db,
  { calls, periods, repeated, ended, isDurable }: CallWrites,
): Promise<void> {
  await (isDurable ? transaction : quickTransaction)(db, async (tx) => {
    await insertRows(tx, 'call_record', recordColumns, calls.map(toRow));
    await insertRows(
      tx,
      'call_period',
      periodColumns,
      periods.map((one) => [one.organizationId, one.kind, one.subject, one.period]),
    );
    for (const { organizationId, id, times } of repeated) {
      await tx
        .updateTable('call_record')
        .set({ times })
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .execute();
    }
    for (const call of ended) {
      await tx
        .updateTable('call_record')
        .set({
          call_id: call.callId,
          duration_ms: call.durationMs ?? null,
          account: call.account,
          outcome: call.end,
          error: call.error ?? null,
          status: call.status ?? null,
          bytes_out: call.bytesOut,
        })
        .where('organization_id', '=', call.organizationId)
        .where('id', '=', call.id)
        .execute();
    }
  });
}

type Value = string | number | null;

const recordColumns = [
  'organization_id',
  'id',
  'call_id',
  'started_at_ms',
  'duration_ms',
  'node',
  'request_id',
  'trace_id',
  'era',
  'person_id',
  'person_name',
  'credential_type',
  'credential_id',
  'credential_name',
  'application',
  'application_source',
  'address',
  'endpoint_id',
  'endpoint_name',
  'target_id',
  'target_name',
  'account',
  'method',
  'subject',
  'outcome',
  'error',
  'status',
  'bytes_in',
  'bytes_out',
  'times',
] as const satisfies readonly (keyof Schema['call_record'])[];

const periodColumns = [
  'organization_id',
  'kind',
  'subject',
  'period',
] as const satisfies readonly (keyof Schema['call_period'])[];

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
  ];
}

const rowsAtOnce = 128;

/** Inserts rows, except those whose key exists. In chunks whose size is a power of two: few statements, prepared once. */
async function insertRows(
  tx: Db,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Value[])[],
): Promise<void> {
  for (let from = 0; from < rows.length;) {
    const count = 2 ** Math.floor(Math.log2(Math.min(rows.length - from, rowsAtOnce)));
    const text = insertText(table, columns, count, isPostgres(tx));
    const values = rows.slice(from, from + count).flat();
    await tx.executeQuery(CompiledQuery.raw(text, values));
    from += count;
  }
}

const insertTexts = new Map<string, string>();

function insertText(
  table: string,
  columns: readonly string[],
  count: number,
  numbered: boolean,
): string {
  const key = `${table} ${count} ${numbered}`;
  let text = insertTexts.get(key);
  if (text === undefined) {
    let place = 0;
    const row = () => `(${columns.map(() => (numbered ? `$${(place += 1)}` : '?')).join(',')})`;
    text = `insert into ${table} (${columns.join(',')}) values ${Array.from({ length: count }, row).join(',')} on conflict do nothing`;
    insertTexts.set(key, text);
  }
  return text;
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
    await tx
      .deleteFrom('call_period')
      .where('organization_id', '=', organizationId)
      .where('period', '<', callPeriodOf(last.id))
      .execute();
  });
  return old.length;
}

/**
 * The first organization, by id, after `after` that has calls, also one that no longer exists: its `retentionDays` are
 * `undefined`. Reads one entry of an index, however many calls there are.
 */
export async function nextOrganizationWithCalls(
  db: Db,
  after: string,
): Promise<{ readonly id: string; readonly retentionDays: number | undefined } | undefined> {
  const { id } = await db
    .selectFrom('call_period')
    .select(({ fn }) => fn.min<string | null>('organization_id').as('id'))
    .where('organization_id', '>', after)
    .executeTakeFirstOrThrow();
  if (id === null) return undefined;
  const row = await db
    .selectFrom('organization')
    .select('call_retention_days')
    .where('id', '=', id)
    .executeTakeFirst();
  return { id, retentionDays: row && (row.call_retention_days ?? callRetentionDays.default) };
}

/** Deletes the periods of an organization that has no calls any more. */
export async function deleteCallPeriods(db: Db, organizationId: string): Promise<void> {
  await db.deleteFrom('call_period').where('organization_id', '=', organizationId).execute();
}
