import { sql, type Expression, type Selectable, type SqlBool } from 'kysely';

import {
  type CallEnd,
  callEnds,
  type CallRecord,
  credentialTypes,
  upstreamAccounts,
} from '#model/calls';
import type { EpochSeconds } from '#model/clock';
import {
  anySubject,
  callIdAt,
  callIdLetters,
  callPeriodMs,
  callSubjects,
  isFailed,
  type CallSubjectKind,
  periodKind,
  writtenAtMs,
} from './calls.ts';
import type { Schema } from './schema.ts';
import { type Db, isPostgres } from './transaction.ts';

// Finding recorded calls: a search reads the rows of those periods only in which all subjects of its filter have calls.

/** Selects calls. Absent members select all. */
export interface CallFilter {
  /** The id of a person. */
  readonly person?: string | undefined;
  /** The address that rows carry of a person, as `emailKey` writes it. */
  readonly personName?: string | undefined;
  /** The id of a key or client. */
  readonly credential?: string | undefined;
  /** The application, as it calls itself; `*` stands for any text. */
  readonly application?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly target?: string | undefined;
  /** Names of tools or prompts, or URIs of resources; `*` stands for any text. */
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

const settledAfterMs = 3000;

/** The watermark of a search at this time: rows that are younger may still be missing, because other processes write them. */
export function watermarkAt(now: EpochSeconds): number {
  return now * 1000 - settledAfterMs;
}

/** Periods that one query reads: about two hours. */
const periodsAtOnce = 24;
const defaultBudgetMs = 1500;

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
      stoppedAt = isUp ? low.slice(0, callIdLetters) : high;
      break;
    }
    const rows = await db
      .selectFrom('call_record')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .where('id', '>=', low)
      .where('id', '<', high)
      .where(matches(db, filter))
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
  let low = callIdAt(fromMs);
  let high = callIdAt(Math.min(untilMs, watermarkMs));
  if (from?.side === 'older' && from.id < high) high = from.id;
  // No id is between an id and the same one with a letter more.
  if (from?.side === 'newer' && from.id >= low)
    low = from.id.length < callIdLetters ? from.id : `${from.id}0`;
  return { low, high };
}

/** The parts of the range to read, in the order of the search; each is at most `periodsAtOnce` long where subjects are known. */
async function spansOf(db: Db, search: CallSearch, range: IdRange): Promise<readonly IdRange[]> {
  const wanted = wantedPeriods(search.filter);
  if (wanted.length === 0) return range.low < range.high ? [range] : [];
  const first = Math.floor(writtenAtMs(range.low) / callPeriodMs);
  const last = Math.floor(writtenAtMs(range.high) / callPeriodMs);
  const ofEach = wanted.map(({ kind, subjects }) =>
    db
      .selectFrom('call_period')
      .select('period')
      .where('organization_id', '=', search.organizationId)
      .where('kind', '=', kind)
      .where(isOneOf(db, 'subject', [...subjects, anySubject], patternKinds.has(kind)))
      .where('period', '>=', first)
      .where('period', '<=', last),
  );
  const [one, ...others] = ofEach;
  if (!one) return [];
  const common = others.reduce((query, other) => query.intersect(other), one.distinct());
  const rows = await common.orderBy('period').execute();
  const spans = runsOf(rows.map(({ period }) => period)).map(([from, to]) => ({
    low: later(callIdAt(from * callPeriodMs), range.low),
    high: earlier(callIdAt((to + 1) * callPeriodMs), range.high),
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
  const failed = end === 'failed' || (end !== undefined && isFailed(end));
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
  if (end === undefined) {
    // Rows with an address have no periods of their own. With those of all calls, the search can stop between them.
    const isOfName = wanted.length === 0 && filter.personName !== undefined;
    return isOfName ? [{ kind: periodKind('end', false), subjects: callEnds }] : wanted;
  }
  const ofEnd = end === 'failed' ? [] : [end];
  return [...wanted, { kind: periodKind('end', end === 'failed'), subjects: ofEnd }];
}

/** The kinds whose subjects a filter may name with `*`. */
const patternKinds: ReadonlySet<string> = new Set(
  (['application', 'name'] as const).flatMap((kind) => [
    periodKind(kind, false),
    periodKind(kind, true),
  ]),
);

/**
 * Whether a column has one of these texts. In patterns, `*` stands for any text, and upper and lower case of ASCII letters are
 * the same on both databases.
 *
 * SQLite "The LIKE, GLOB, REGEXP, MATCH, and extract operators"; PostgreSQL §9.7.1
 */
function isOneOf(
  db: Db,
  column: string,
  texts: readonly string[],
  arePatterns: boolean,
): Expression<SqlBool> {
  const isPattern = (text: string) => arePatterns && text.includes('*');
  const plain = texts.filter((text) => !isPattern(text));
  const like = sql.raw(isPostgres(db) ? 'ilike' : 'like');
  const parts = texts.filter(isPattern).map((text) => {
    const pattern = text.replaceAll(/[\\%_]/g, String.raw`\$&`).replaceAll('*', '%');
    return sql`${sql.ref(column)} ${like} ${pattern} escape '\\'`;
  });
  if (plain.length > 0) parts.push(sql`${sql.ref(column)} in (${sql.join(plain)})`);
  return parts.length > 0 ? sql<SqlBool>`(${sql.join(parts, sql` or `)})` : sql<SqlBool>`1 = 0`;
}

/** Whether a row is what a filter selects. */
function matches(db: Db, filter: CallFilter): Expression<SqlBool> {
  const { names, application, end } = filter;
  const equal: readonly (readonly [string, string | undefined])[] = [
    ['person_id', filter.person],
    ['credential_id', filter.credential],
    ['endpoint_id', filter.endpoint],
    ['target_id', filter.target],
    ['error', filter.error],
    ['call_id', filter.callId],
    ['outcome', end === 'failed' ? undefined : end],
  ];
  const parts = equal.flatMap(([column, value]) =>
    value === undefined ? [] : [sql`${sql.ref(column)} = ${value}`],
  );
  if (application !== undefined)
    parts.push(sql`${isOneOf(db, 'application', [application], true)}`);
  if (filter.personName !== undefined) parts.push(sql`lower(person_name) = ${filter.personName}`);
  if (names) parts.push(sql`${isOneOf(db, 'subject', names, true)}`);
  if (end === 'failed') parts.push(sql`outcome not in ('ok', 'cancelled')`);
  return parts.length > 0 ? sql<SqlBool>`${sql.join(parts, sql` and `)}` : sql<SqlBool>`1 = 1`;
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
      type: credentialTypes.find((known) => known === row.credential_type) ?? 'unknown',
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
    account: upstreamAccounts.find((known) => known === row.account) ?? 'none',
    method: row.method ?? undefined,
    subject: row.subject ?? undefined,
    end: callEnds.find((known) => known === row.outcome) ?? 'unknown',
    error: row.error ?? undefined,
    status: row.status ?? undefined,
    bytesIn: row.bytes_in,
    bytesOut: row.bytes_out,
    times: row.times,
  };
}
