import { randomBytes } from 'node:crypto';

import { CompiledQuery, sql, type Expression, type Selectable, type SqlBool } from 'kysely';

import {
  type CallEnd,
  type CallRecord,
  callRetentionDays,
  type UpstreamAccount,
} from '#model/calls';
import type { Schema } from './schema.ts';
import { isPostgres, quickTransaction, transaction, type Db } from './transaction.ts';

// Recorded calls. A row has no index but its primary key, so that writing it stays cheap. For each subject, such as a person or a
// tool, `call_period` has the periods of five minutes in which it was called. A search reads the rows of those periods only.

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

/** Selects calls. Absent members select all. */
export interface CallFilter {
  /** The id of a person. */
  readonly person?: string | undefined;
  /** The id of a key or client. */
  readonly credential?: string | undefined;
  /** The application, as it calls itself. */
  readonly application?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly target?: string | undefined;
  /** Names of tools or prompts, or URIs of resources. */
  readonly names?: readonly string[] | undefined;
  readonly error?: string | undefined;
  /** `failed`: all ends but `ok` and `cancelled`. */
  readonly end?: CallEnd | 'failed' | undefined;
  /** Rows of one call that needed several rounds. */
  readonly callId?: string | undefined;
  /** When the row was written, inclusive, in milliseconds since 1970. */
  readonly fromMs?: number | undefined;
  /** Exclusive. */
  readonly untilMs?: number | undefined;
}

/** A page of calls. */
export interface CallSearch {
  readonly organizationId: string;
  readonly filter: CallFilter;
  /** Only calls on this side of a call: `older` than it, or `newer`. */
  readonly from?: { readonly id: string; readonly side: 'older' | 'newer' } | undefined;
  readonly limit: number;
  /** Rows written at or after this time are left out: another node may still be writing older ones. */
  readonly watermarkMs: number;
  /** Stops searching after this time. */
  readonly budgetMs?: number | undefined;
}

/** Calls that a search found, newest first. */
export interface FoundCalls {
  readonly calls: readonly CallRecord[];
  /** Whether there may be more calls beyond the last one that was found, seen in the direction of the search. */
  readonly hasMore: boolean;
  /** Set if the time was over before the page was full: continue from here. */
  readonly stoppedAt?: string | undefined;
}

const periodMs = 300_000;
const idLetters = 24;
/** Periods that one query reads: about two hours. */
const periodsAtOnce = 24;
const defaultBudgetMs = 1500;

/** The subject of a period that has more subjects than are written down: any of them may have calls in it. */
const anySubject = '';

let lastId = 0;
/** Distinguishes the ids of processes. */
const ownLetters = randomBytes(4).toString('hex');

/** An id that sorts by the time at which a row is written and, within a process, by order of creation. 24 letters. */
export function newCallRecordId(nowMs: number): string {
  lastId = (lastId + 1) % 0x1_0000;
  return `${startOf(nowMs)}${lastId.toString(16).padStart(4, '0')}${ownLetters}`;
}

/** When a row was written, in milliseconds since 1970. */
export function writtenAtMs(id: string): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

/** What all ids of this millisecond and later ones are not less than. */
function startOf(ms: number): string {
  return Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
}

export function callPeriodOf(id: string): number {
  return Math.floor(writtenAtMs(id) / periodMs);
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

/** The call with this id, in this organization only. */
export async function findCall(
  db: Db,
  organizationId: string,
  id: string,
): Promise<CallRecord | undefined> {
  const row = await db
    .selectFrom('call_record')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row && readCall(row);
}

/**
 * Searches calls. Goes through the periods in which every subject of the filter has calls, from the newest one (or from the
 * oldest one for `newer`), until the page is full or the time is over.
 */
export async function searchCalls(db: Db, search: CallSearch): Promise<FoundCalls> {
  const { organizationId, filter, limit, budgetMs = defaultBudgetMs } = search;
  const range = rangeOf(search);
  const isUp = search.from?.side === 'newer';
  const endAt = performance.now() + budgetMs;
  const found: CallRecord[] = [];
  let stoppedAt: string | undefined;
  for (const { low, high } of await spansOf(db, search, range)) {
    if (performance.now() > endAt) {
      // Without the letter that `rangeOf` may have added, so that it is the id to go on after.
      stoppedAt = isUp ? low.slice(0, idLetters) : high;
      break;
    }
    const rows = await db
      .selectFrom('call_record')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .where('id', '>=', low)
      .where('id', '<', high)
      .where(() => matches(filter))
      .orderBy('id', isUp ? 'asc' : 'desc')
      .limit(limit + 1 - found.length)
      .execute();
    found.push(...rows.map(readCall));
    if (found.length > limit) break;
  }
  const calls = found.slice(0, limit);
  return {
    calls: isUp ? calls.toReversed() : calls,
    hasMore: found.length > limit || stoppedAt !== undefined,
    ...(stoppedAt !== undefined && { stoppedAt }),
  };
}

/** Ids from `low` (inclusive) to `high` (exclusive). */
interface IdRange {
  readonly low: string;
  readonly high: string;
}

function rangeOf({ filter, from, watermarkMs }: CallSearch): IdRange {
  const { fromMs = 0, untilMs = Infinity } = filter;
  let low = startOf(fromMs);
  let high = startOf(Math.min(untilMs, watermarkMs));
  if (from?.side === 'older' && from.id < high) high = from.id;
  // No id is between an id and the same one with a letter more.
  if (from?.side === 'newer' && from.id >= low)
    low = from.id.length < idLetters ? from.id : `${from.id}0`;
  return { low, high };
}

/** The parts of the range to read, in the order of the search; each is at most `periodsAtOnce` long where subjects are known. */
async function spansOf(db: Db, search: CallSearch, range: IdRange): Promise<readonly IdRange[]> {
  const wanted = wantedPeriods(search.filter);
  if (wanted.length === 0) return range.low < range.high ? [range] : [];
  const first = Math.floor(writtenAtMs(range.low) / periodMs);
  const last = Math.floor(writtenAtMs(range.high) / periodMs);
  const ofEach = wanted.map(({ kind, subjects }) =>
    db
      .selectFrom('call_period')
      .select('period')
      .where('organization_id', '=', search.organizationId)
      .where('kind', '=', kind)
      .where('subject', 'in', [...subjects, anySubject])
      .where('period', '>=', first)
      .where('period', '<=', last),
  );
  const [one, ...others] = ofEach;
  if (!one) return [];
  const common = others.reduce((query, other) => query.intersect(other), one.distinct());
  const rows = await common.orderBy('period').execute();
  const spans = runsOf(rows.map(({ period }) => period)).map(([from, to]) => ({
    low: later(startOf(from * periodMs), range.low),
    high: earlier(startOf((to + 1) * periodMs), range.high),
  }));
  return search.from?.side === 'newer' ? spans : spans.toReversed();
}

/** Consecutive periods, as the first and last of each run. */
function runsOf(periods: readonly number[]): readonly (readonly [number, number])[] {
  const runs: [number, number][] = [];
  for (const period of periods) {
    const run = runs.at(-1);
    if (run && period === run[1] + 1 && period - run[0] < periodsAtOnce) run[1] = period;
    else runs.push([period, period]);
  }
  return runs;
}

function later(one: string, other: string): string {
  return one > other ? one : other;
}

function earlier(one: string, other: string): string {
  return one < other ? one : other;
}

/** The kinds of periods that a filter needs, each with its subjects. */
function wantedPeriods(filter: CallFilter) {
  const { person, credential, application, endpoint, target, names, error, end } = filter;
  const failed = end !== undefined && end !== 'ok' && end !== 'cancelled';
  const values: Record<CallSubjectKind, readonly string[] | undefined> = {
    person: person === undefined ? undefined : [person],
    credential: credential === undefined ? undefined : [credential],
    application: application === undefined ? undefined : [application],
    endpoint: endpoint === undefined ? undefined : [endpoint],
    target: target === undefined ? undefined : [target],
    name: names,
    error: error === undefined ? undefined : [error],
  };
  const wanted = callSubjects.flatMap((kind) => {
    const subjects = values[kind];
    return subjects ? [{ kind: periodKind(kind, failed), subjects }] : [];
  });
  if (end === undefined || end === 'failed') {
    return end === undefined ? wanted : [...wanted, { kind: 'end!', subjects: [] }];
  }
  return [...wanted, { kind: 'end', subjects: [end] }];
}

/** Whether a row is what a filter selects. */
function matches(filter: CallFilter): Expression<SqlBool> {
  const { names, end } = filter;
  const equal: readonly (readonly [string, string | undefined])[] = [
    ['person_id', filter.person],
    ['credential_id', filter.credential],
    ['application', filter.application],
    ['endpoint_id', filter.endpoint],
    ['target_id', filter.target],
    ['error', filter.error],
    ['call_id', filter.callId],
    ['outcome', end === 'failed' ? undefined : end],
  ];
  const parts = equal.flatMap(([column, value]) =>
    value === undefined ? [] : [sql`${sql.ref(column)} = ${value}`],
  );
  if (names) parts.push(names.length > 0 ? sql`subject in (${sql.join(names)})` : sql`1 = 0`);
  if (end === 'failed') parts.push(sql`outcome not in ('ok', 'cancelled')`);
  return parts.length > 0 ? sql<SqlBool>`${sql.join(parts, sql` and `)}` : sql<SqlBool>`1 = 1`;
}

/**
 * The names of tools, prompts and resources that match a pattern with `*` for any text, in alphabetical order; at most `limit`.
 */
export async function listCalledNames(
  db: Db,
  organizationId: string,
  pattern: string,
  limit = 200,
): Promise<readonly string[]> {
  const like = pattern.replaceAll(/[\\%_]/g, String.raw`\$&`).replaceAll('*', '%');
  const rows = await db
    .selectFrom('call_period')
    .select('subject')
    .distinct()
    .where('organization_id', '=', organizationId)
    .where('kind', '=', 'name')
    .where(sql<SqlBool>`subject like ${like} escape '\\'`)
    .where('subject', '!=', anySubject)
    .orderBy('subject')
    .limit(limit)
    .execute();
  return rows.map(({ subject }) => subject);
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
    .where('id', '<', startOf(beforeMs))
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

function readCall(row: Selectable<Schema['call_record']>): CallRecord {
  return {
    organizationId: row.organization_id,
    id: row.id,
    callId: row.call_id,
    startedAtMs: row.started_at_ms,
    durationMs: row.duration_ms ?? undefined,
    node: row.node,
    requestId: row.request_id,
    traceId: row.trace_id ?? undefined,
    era: row.era === 'modern' ? 'modern' : 'legacy',
    person: row.person_id === null ? undefined : { id: row.person_id, name: row.person_name ?? '' },
    credential: {
      // These columns have only values of their types.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      type: row.credential_type as CallRecord['credential']['type'],
      id: row.credential_id,
      name: row.credential_name,
    },
    application:
      row.application === null
        ? undefined
        : {
            text: row.application,
            source: row.application_source === 'client_info' ? 'client_info' : 'user_agent',
          },
    address: row.address ?? undefined,
    endpoint: { id: row.endpoint_id, name: row.endpoint_name },
    target: { id: row.target_id, name: row.target_name },
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    account: row.account as UpstreamAccount,
    method: row.method ?? undefined,
    subject: row.subject ?? undefined,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    end: row.outcome as CallEnd,
    error: row.error ?? undefined,
    status: row.status ?? undefined,
    bytesIn: row.bytes_in,
    bytesOut: row.bytes_out,
    times: row.times,
  };
}
