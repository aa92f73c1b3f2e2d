import { sql, type Insertable, type QueryCreator, type RawBuilder } from 'kysely';

import {
  type CallKind,
  type Caller,
  callerPart,
  type CallCounts,
  type CallTally,
  type CallSubject,
  type TargetSubject,
  toolPart,
} from '#model/call-counts';
import type { EpochSeconds } from '#model/clock';
import { preparedQuery } from './prepared-query.ts';
import type { Schema } from './schema.ts';
import { quickTransaction, type Db } from './transaction.ts';

// Counts of calls. The number of rows depends on the number of subjects and periods, not of calls. Counts recorded by several
// processes add up. The database computes sums, because transferring rows costs more than reading them.

/**
 * Lengths and retention of the periods that calls are counted in: enough for the last hour by minutes, the last week
 * by hours and the last year by days. Periods are aligned to UTC.
 */
export const periods = {
  minute: { seconds: 60, retentionSeconds: 2 * 3600 },
  hour: { seconds: 3600, retentionSeconds: 8 * 86_400 },
  day: { seconds: 86_400, retentionSeconds: 400 * 86_400 },
} as const;

/** A minute, an hour or a day. */
export type Period = keyof typeof periods;

/** Selects the calls that are counted for the subjects of one kind: all subjects, or only those of one server or with one name. */
export interface CallFilter {
  readonly kind: CallKind;
  readonly serverId?: string | undefined;
  readonly subject?: string | undefined;
  /** For the kind `caller`: only the tools of this caller. */
  readonly caller?: Caller | undefined;
  /** For the kind `caller`: only the callers of this tool. */
  readonly tool?: string | undefined;
}

/** Selects rows of one organization from `from` (inclusive) to `until` (exclusive), summed up by steps. */
export interface RollupSpan {
  readonly organizationId: string;
  readonly period: Period;
  /** A whole number of periods. */
  readonly stepSeconds: number;
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
}

/** Calls in one latency range, as numbered in `usage/latencies.ts`. */
export interface TimedCounts extends CallCounts {
  readonly bucket: number;
}

export interface StepCounts extends CallCounts {
  /** When the step begins. */
  readonly at: EpochSeconds;
}

type Row = Insertable<Schema['usage_rollup']>;

const rowsAtOnce = 128;
const deletedAtOnce = 60;

/** Adds tallies to the rows of each period, of the server and of its organization. Tallies of deleted servers are ignored. */
export async function recordCalls(db: Db, tallies: readonly CallTally[]): Promise<void> {
  if (tallies.length === 0) return;
  await quickTransaction(db, async (tx) => {
    const owners = await ownersOf(tallies, tx);
    const rows = rowsOf(tallies, owners);
    while (rows.length > 0) {
      // In chunks whose size is a power of two, so that only a few different statements are prepared.
      const count = 2 ** Math.floor(Math.log2(Math.min(rows.length, rowsAtOnce)));
      await addRows(rows.splice(0, count), tx);
    }
  });
}

/** The kinds whose subjects are names that callers choose. */
const namedKinds = ['tool', 'method', 'application'] as const;
export type NamedKind = (typeof namedKinds)[number];

/** The stored names of tools, methods and applications of all targets. */
export async function listCountedNames(db: Db): Promise<(TargetSubject & { kind: NamedKind })[]> {
  const rows = await db
    .selectFrom('usage_rollup')
    .select(['target_id', 'kind', 'subject'])
    .distinct()
    .where('period', '=', 'day')
    .where('kind', 'in', namedKinds)
    .orderBy('target_id')
    .orderBy('kind')
    .orderBy('subject')
    .execute();
  return rows.flatMap((row) => {
    const kind = namedKinds.find((known) => known === row.kind);
    return kind ? [{ targetId: row.target_id, kind, subject: row.subject }] : [];
  });
}

/** Deletes expired rows, at most sixty periods of each length at a time. */
export async function deleteOldRollups(db: Db, now: EpochSeconds): Promise<void> {
  for (const [period, { retentionSeconds }] of Object.entries(periods)) {
    const old = await db
      .selectFrom('usage_rollup')
      .select('at')
      .distinct()
      .where('period', '=', period)
      .where('at', '<', now - retentionSeconds)
      .orderBy('at')
      .limit(deletedAtOnce)
      .execute();
    const last = old.at(-1);
    if (!last) continue;
    await db
      .deleteFrom('usage_rollup')
      .where('period', '=', period)
      .where('at', '<=', last.at)
      .execute();
  }
}

/** Calls in chronological order: of the whole organization, or of some subjects. */
export async function sumCalls(
  db: Db,
  span: RollupSpan,
  of?: CallFilter,
): Promise<(StepCounts & TimedCounts)[]> {
  const rows = await overTime(span)(
    db,
    ...toLists(of),
    ...toSpan(span, of?.kind ?? 'organization'),
  );
  return rows.map((row) => Object.assign(timedCountsOf(row), { at: row.at }));
}

/** The busiest of the subjects, each with the sum of its calls; at most `limit`. */
export async function listBusiest(
  db: Db,
  span: RollupSpan,
  of: CallFilter,
  limit: number,
): Promise<(CallSubject & { readonly counts: TimedCounts[] })[]> {
  const rows = await busiestSums(db, limit, ...toLists(of), ...toSpan(span, of.kind));
  const subjects: (CallSubject & { readonly counts: TimedCounts[] })[] = [];
  for (const row of rows) {
    const { endpoint_id: serverId, subject } = row;
    const counts = timedCountsOf(row);
    const last = subjects.at(-1);
    if (last?.serverId === serverId && last.subject === subject) last.counts.push(counts);
    else subjects.push({ serverId, subject, counts: [counts] });
  }
  return subjects;
}

/** The sums of calls of those servers that were called. */
export async function sumCallsOfServers(
  db: Db,
  span: RollupSpan,
  serverIds: readonly string[],
): Promise<{ readonly serverId: string; readonly counts: TimedCounts[] }[]> {
  if (serverIds.length === 0) return [];
  const rows = await ofServers(db, timesOf(span), serverIds, ...toSpan(span, 'server'));
  const ofEach = Map.groupBy(rows, ({ endpoint_id: id }) => id);
  return [...ofEach].map(([serverId, own]) => ({ serverId, counts: own.map(timedCountsOf) }));
}

/** Calls of several subjects, in chronological order. */
export async function sumCallsOfSubjects(
  db: Db,
  span: RollupSpan,
  kind: CallKind,
  subjects: readonly CallSubject[],
): Promise<(CallSubject & StepCounts)[]> {
  if (subjects.length === 0) return [];
  const rows = await ofSubjects(span)(
    db,
    timesOf(span),
    subjects.map(({ serverId }) => serverId),
    subjects.map(({ subject }) => subject),
    ...toSpan(span, kind),
  );
  return rows.map((row) => {
    const { at, endpoint_id: serverId, subject } = row;
    return Object.assign(countsOf(row), { at, serverId, subject });
  });
}

/** Whether any stored call of the organization was counted for these subjects. */
export async function hasCountedCalls(
  db: Db,
  organizationId: string,
  of: CallFilter,
  now: EpochSeconds,
): Promise<boolean> {
  const { seconds: stepSeconds, retentionSeconds } = periods.day;
  const from = now - retentionSeconds;
  const span = { organizationId, period: 'day', stepSeconds, from, until: now + 1 } as const;
  const rows = await countedDays(db, timesOf(span), ...toLists(of), ...toSpan(span, of.kind));
  return rows.length > 0;
}

async function ownersOf(
  tallies: readonly CallTally[],
  db: Db,
): Promise<ReadonlyMap<string, string>> {
  const ids = [...new Set(tallies.map(({ serverId }) => serverId))];
  const rows = await db
    .selectFrom('endpoint')
    .select(['id', 'organization_id'])
    .where('id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.id, row.organization_id]));
}

/** The rows to add: one for each tally and period. Tallies of a server are added to its organization too. */
function rowsOf(tallies: readonly CallTally[], owners: ReadonlyMap<string, string>): Row[] {
  const rows = new Map<string, Row>();
  const count = (period: Period, tally: CallTally, but: Pick<Row, 'organization_id' | 'kind'>) => {
    const isWhole = but.kind === 'organization';
    const key = {
      ...but,
      period,
      at: tally.at - (tally.at % periods[period].seconds),
      endpoint_id: isWhole ? '' : tally.serverId,
      subject: isWhole ? '' : tally.subject,
      target_id: isWhole ? '' : tally.targetId,
      bucket: tally.bucket,
    };
    const name = JSON.stringify(key);
    const row = rows.get(name);
    rows.set(name, {
      ...key,
      calls: (row?.calls ?? 0) + tally.calls,
      tool_errors: (row?.tool_errors ?? 0) + tally.toolErrors,
      refused: (row?.refused ?? 0) + tally.refused,
      upstream_errors: (row?.upstream_errors ?? 0) + tally.upstreamErrors,
    });
  };
  for (const tally of tallies) {
    const organization = owners.get(tally.serverId);
    if (organization === undefined) continue;
    for (const period of ['minute', 'hour', 'day'] as const) {
      count(period, tally, { organization_id: organization, kind: tally.kind });
      if (tally.kind !== 'server') continue;
      count(period, tally, { organization_id: organization, kind: 'organization' });
    }
  }
  // Always in the same order: transactions that update the same rows in different orders can deadlock.
  return [...rows.keys()].sort().flatMap((name) => rows.get(name) ?? []);
}

async function addRows(rows: readonly Row[], db: Db): Promise<void> {
  await db
    .insertInto('usage_rollup')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns([
          'organization_id',
          'kind',
          'period',
          'at',
          'endpoint_id',
          'subject',
          'target_id',
          'bucket',
        ])
        .doUpdateSet((row) => ({
          calls: row('usage_rollup.calls', '+', row.ref('excluded.calls')),
          tool_errors: row('usage_rollup.tool_errors', '+', row.ref('excluded.tool_errors')),
          refused: row('usage_rollup.refused', '+', row.ref('excluded.refused')),
          upstream_errors: row(
            'usage_rollup.upstream_errors',
            '+',
            row.ref('excluded.upstream_errors'),
          ),
        })),
    )
    .execute();
}

const overTime = ofEachStep((step) =>
  preparedQuery((db, ...[servers, subjects, parts, ...span]: [...Lists, ...Span]) =>
    summed(db, span)
      .select([step.as('at'), 'bucket'])
      .$if(servers.length > 0, (of) => of.where('endpoint_id', 'in', servers))
      .$if(subjects.length > 0, (of) => of.where('subject', 'in', subjects))
      .$if(parts.length > 0, (of) => of.where(hasParts(parts)))
      .groupBy([step, 'bucket'])
      .orderBy('at')
      .orderBy('bucket'),
  ),
);

// The sums are materialized, because reading the rows is expensive: the ranking and the result both need them.
const busiestSums = preparedQuery(
  (db, ...[limit, servers, subjects, parts, ...span]: [number, ...Lists, ...Span]) =>
    db
      .with(
        (named) => named('sums').materialized(),
        (query) =>
          summed(query, span)
            .select(['endpoint_id', 'subject', 'bucket'])
            .$if(servers.length > 0, (of) => of.where('endpoint_id', 'in', servers))
            .$if(subjects.length > 0, (of) => of.where('subject', 'in', subjects))
            .$if(parts.length > 0, (of) => of.where(hasParts(parts)))
            .groupBy(['endpoint_id', 'subject', 'bucket']),
      )
      .with('most', (query) =>
        query
          .selectFrom('sums')
          .select((row) => ['endpoint_id', 'subject', row.fn.sum<number>('calls').as('total')])
          .groupBy(['endpoint_id', 'subject'])
          .orderBy('total', 'desc')
          .orderBy('endpoint_id')
          .orderBy('subject')
          .limit(limit),
      )
      .selectFrom('most')
      .innerJoin('sums', (join) =>
        join
          .onRef('sums.endpoint_id', '=', 'most.endpoint_id')
          .onRef('sums.subject', '=', 'most.subject'),
      )
      .selectAll('sums')
      .orderBy('most.total', 'desc')
      .orderBy('most.endpoint_id')
      .orderBy('most.subject')
      .orderBy('bucket'),
);

// With the list of periods, the index finds the rows of each server and period without reading those of other servers.
const ofServers = preparedQuery(
  (db, times: readonly number[], serverIds: readonly string[], ...span: Span) =>
    summed(db, span)
      .select(['endpoint_id', 'bucket'])
      .where('at', 'in', times)
      .where('endpoint_id', 'in', serverIds)
      .groupBy(['endpoint_id', 'bucket'])
      .orderBy('endpoint_id')
      .orderBy('bucket'),
);

const ofSubjects = ofEachStep((step) =>
  preparedQuery(
    (
      db,
      times: readonly number[],
      serverIds: readonly string[],
      subjects: readonly string[],
      ...span: Span
    ) =>
      summed(db, span)
        .select([step.as('at'), 'endpoint_id', 'subject'])
        .where('at', 'in', times)
        .where('endpoint_id', 'in', serverIds)
        .where('subject', 'in', subjects)
        // The conditions above use the index and allow all combinations; this one selects the pairs.
        .where(
          sql<boolean>`(endpoint_id, subject) in (values ${sql.join(
            serverIds.map((serverId, index) => sql`(${serverId}, ${subjects[index]})`),
          )})`,
        )
        .groupBy([step, 'endpoint_id', 'subject'])
        .orderBy('at'),
  ),
);

// Rows of days suffice, because every call is counted in the row of its day.
const countedDays = preparedQuery(
  (db, ...[days, servers, subjects, parts, ...span]: [readonly number[], ...Lists, ...Span]) =>
    inSpan(db, span)
      .select('endpoint_id')
      .where('at', 'in', days)
      .$if(servers.length > 0, (of) => of.where('endpoint_id', 'in', servers))
      .$if(subjects.length > 0, (of) => of.where('subject', 'in', subjects))
      .$if(parts.length > 0, (of) => of.where(hasParts(parts)))
      .limit(1),
);

type Sums = Pick<Schema['usage_rollup'], 'calls' | 'tool_errors' | 'refused' | 'upstream_errors'>;
type Span = readonly [
  organizationId: string,
  kind: string,
  period: string,
  from: number,
  until: number,
];

/** The values that a query selects; all if there are none. */
type Selected = readonly string[];

type Lists = [servers: Selected, subjects: Selected, parts: Selected];

function toLists({ serverId, subject, caller, tool }: Partial<CallFilter> = {}): Lists {
  const parts = [caller ? callerPart(caller) : '', tool === undefined ? '' : toolPart(tool)];
  return [
    serverId === undefined ? [] : [serverId],
    subject === undefined ? [] : [subject],
    parts.some((part) => part !== '') ? parts : [],
  ];
}

/** Whether a subject begins with the first part and ends with the second one. */
function hasParts([first, last]: Selected) {
  const [start, end] = [sql`cast(${first} as text)`, sql`cast(${last} as text)`];
  return sql<boolean>`(substr(subject, 1, length(${start})) = ${start}
    and substr(subject, length(subject) - length(${end}) + 1) = ${end})`;
}

function toSpan({ organizationId, period, from, until }: RollupSpan, kind: string): Span {
  return [organizationId, kind, period, from, until];
}

function inSpan(db: QueryCreator<Schema>, [organizationId, kind, period, from, until]: Span) {
  return db
    .selectFrom('usage_rollup')
    .where('organization_id', '=', organizationId)
    .where('kind', '=', kind)
    .where('period', '=', period)
    .where('at', '>=', from)
    .where('at', '<', until);
}

function summed(db: QueryCreator<Schema>, span: Span) {
  return inSpan(db, span).select((row) => [
    row.fn.sum<number>('calls').as('calls'),
    row.fn.sum<number>('tool_errors').as('tool_errors'),
    row.fn.sum<number>('refused').as('refused'),
    row.fn.sum<number>('upstream_errors').as('upstream_errors'),
  ]);
}

/** One query for each length of a step, because the length is part of the SQL text. */
function ofEachStep<Query>(query: (step: RawBuilder<number>) => Query) {
  const queries = new Map<number, Query>();
  return ({ stepSeconds }: RollupSpan): Query => {
    const known = queries.get(stepSeconds);
    if (known) return known;
    const made = query(sql<number>`at - at % ${sql.lit(stepSeconds)}`);
    queries.set(stepSeconds, made);
    return made;
  };
}

/** The times at which the periods of a span begin. */
function timesOf({ from, until, period }: RollupSpan): readonly number[] {
  const { seconds } = periods[period];
  const first = from - (from % seconds);
  return Array.from(
    { length: Math.ceil((until - first) / seconds) },
    (_, step) => first + step * seconds,
  );
}

function timedCountsOf(row: Sums & { readonly bucket: number }): TimedCounts {
  return Object.assign(countsOf(row), { bucket: row.bucket });
}

function countsOf(row: Sums): CallCounts {
  return {
    calls: row.calls,
    toolErrors: row.tool_errors,
    refused: row.refused,
    upstreamErrors: row.upstream_errors,
  };
}
