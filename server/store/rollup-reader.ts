import { sql, type Kysely, type QueryCreator, type RawBuilder } from 'kysely';

import { periods } from '#usage/period';
import type { RollupReader, RollupSpan, TimedCounts } from '#usage/rollup-reader';
import type { CallCounts, CallSubject } from '#usage/rollup-store';
import { compiledQuery } from './compiled-query.ts';
import type { Schema } from './schema.ts';

/** Counted calls read by SQL, which sums them up: rows that are handed over cost more than rows that are read. */
export function rollupReader(db: Kysely<Schema>): RollupReader {
  const overTime = ofEachStep((step) =>
    compiledQuery(db, (serverId: string, subject: string, ...span: Span) =>
      summed(db, span)
        .select([step.as('at'), 'bucket'])
        .where('server_id', '=', serverId)
        .where('subject', '=', subject)
        .groupBy([step, 'bucket'])
        .orderBy('at')
        .orderBy('bucket'),
    ),
  );

  // Summed up once, as reading the rows is what costs: for the ranking, and for what is ranked.
  const busiest = compiledQuery(db, (limit: number, ...span: Span) =>
    db
      .with(
        (named) => named('sums').materialized(),
        (query) =>
          summed(query, span)
            .select(['server_id', 'subject', 'bucket'])
            .groupBy(['server_id', 'subject', 'bucket']),
      )
      .with('most', (query) =>
        query
          .selectFrom('sums')
          .select((row) => ['server_id', 'subject', row.fn.sum<number>('calls').as('total')])
          .groupBy(['server_id', 'subject'])
          .orderBy('total', 'desc')
          .orderBy('server_id')
          .orderBy('subject')
          .limit(limit),
      )
      .selectFrom('most')
      .innerJoin('sums', (join) =>
        join
          .onRef('sums.server_id', '=', 'most.server_id')
          .onRef('sums.subject', '=', 'most.subject'),
      )
      .selectAll('sums')
      .orderBy('most.total', 'desc')
      .orderBy('most.server_id')
      .orderBy('most.subject')
      .orderBy('bucket'),
  );

  // Each period of each server is a leap to where its rows lie, past those of all other servers.
  const ofServers = compiledQuery(
    db,
    (times: readonly number[], serverIds: readonly string[], ...span: Span) =>
      summed(db, span)
        .select(['server_id', 'bucket'])
        .where('at', 'in', times)
        .where('server_id', 'in', serverIds)
        .groupBy(['server_id', 'bucket'])
        .orderBy('server_id')
        .orderBy('bucket'),
  );

  const ofSubjects = ofEachStep((step) =>
    compiledQuery(
      db,
      (
        times: readonly number[],
        serverIds: readonly string[],
        subjects: readonly string[],
        ...span: Span
      ) =>
        summed(db, span)
          .select([step.as('at'), 'server_id', 'subject'])
          .where('at', 'in', times)
          .where('server_id', 'in', serverIds)
          .where('subject', 'in', subjects)
          // Of all their pairs those that are asked for; each place in the lists is one.
          .where(
            sql<boolean>`(server_id, subject) in (values ${sql.join(
              serverIds.map((serverId, place) => sql`(${serverId}, ${subjects[place]})`),
            )})`,
          )
          .groupBy([step, 'server_id', 'subject'])
          .orderBy('at'),
    ),
  );

  // Every call is in the row of its day.
  const counted = compiledQuery(
    db,
    (days: readonly number[], serverId: string, subject: string, ...span: Span) =>
      inSpan(db, span)
        .select('server_id')
        .where('at', 'in', days)
        .where('server_id', '=', serverId)
        .where('subject', '=', subject)
        .limit(1),
  );

  return {
    async read(span, of) {
      const { serverId = '', subject = '', kind = 'organization' } = of ?? {};
      const rows = await overTime(span)(serverId, subject, ...asked(span, kind));
      return rows.map((row) => Object.assign(timedCountsOf(row), { at: row.at }));
    },

    async busiest(span, kind, limit) {
      const rows = await busiest(limit, ...asked(span, kind));
      const subjects: (CallSubject & { readonly counts: TimedCounts[] })[] = [];
      for (const row of rows) {
        const { server_id: serverId, subject } = row;
        const counts = timedCountsOf(row);
        const last = subjects.at(-1);
        if (last?.serverId === serverId && last.subject === subject) last.counts.push(counts);
        else subjects.push({ serverId, subject, counts: [counts] });
      }
      return subjects;
    },

    async ofServers(span, serverIds) {
      if (serverIds.length === 0) return [];
      const rows = await ofServers(timesOf(span), serverIds, ...asked(span, 'server'));
      const servers: { readonly serverId: string; readonly counts: TimedCounts[] }[] = [];
      for (const row of rows) {
        const { server_id: serverId } = row;
        const counts = timedCountsOf(row);
        const last = servers.at(-1);
        if (last?.serverId === serverId) last.counts.push(counts);
        else servers.push({ serverId, counts: [counts] });
      }
      return servers;
    },

    async counts(span, kind, subjects) {
      if (subjects.length === 0) return [];
      const rows = await ofSubjects(span)(
        timesOf(span),
        subjects.map(({ serverId }) => serverId),
        subjects.map(({ subject }) => subject),
        ...asked(span, kind),
      );
      return rows.map((row) => {
        const { at, server_id: serverId, subject } = row;
        return Object.assign(countsOf(row), { at, serverId, subject });
      });
    },

    async has(organizationId, { kind, serverId, subject }, now) {
      const { seconds: stepSeconds, keptSeconds } = periods.day;
      const from = now - keptSeconds;
      const span = { organizationId, period: 'day', stepSeconds, from, until: now + 1 } as const;
      const rows = await counted(timesOf(span), serverId, subject, ...asked(span, kind));
      return rows.length > 0;
    },
  };
}

type Sums = Pick<Schema['usage_rollup'], 'calls' | 'tool_errors' | 'refused' | 'upstream_errors'>;
type Span = readonly [
  organizationId: string,
  kind: string,
  period: string,
  from: number,
  until: number,
];

function asked({ organizationId, period, from, until }: RollupSpan, kind: string): Span {
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

/** One query for each length of step, which stands in its words. */
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

/** When the periods of a span begin. */
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
