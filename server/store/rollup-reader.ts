import { sql, type Kysely, type QueryCreator } from 'kysely';

import { periods } from '#usage/period';
import type { RollupReader, RollupSpan, TimedCounts } from '#usage/rollup-reader';
import type { CallCounts, CallSubject } from '#usage/rollup-store';
import type { Schema } from './schema.ts';

/** Counted calls read by SQL, which sums them up: rows that are handed over cost more than rows that are read. */
export function rollupReader(db: Kysely<Schema>): RollupReader {
  return {
    async read(span, of) {
      const rows = await summed(db, span, of?.kind ?? 'organization')
        .select([stepOf(span).as('at'), 'bucket'])
        .where('server_id', '=', of?.serverId ?? '')
        .where('subject', '=', of?.subject ?? '')
        .groupBy([stepOf(span), 'bucket'])
        .orderBy('at')
        .orderBy('bucket')
        .execute();
      return rows.map(({ at, bucket, ...sums }) => Object.assign(countsOf(sums), { at, bucket }));
    },

    async busiest(span, kind, limit) {
      // Summed up once, as reading the rows is what costs: for the ranking, and for what is ranked.
      const rows = await db
        .with(
          (named) => named('sums').materialized(),
          (query) =>
            summed(query, span, kind)
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
        .orderBy('bucket')
        .execute();
      const subjects: (CallSubject & { readonly counts: TimedCounts[] })[] = [];
      for (const { server_id: serverId, subject, bucket, ...sums } of rows) {
        const counts = Object.assign(countsOf(sums), { bucket });
        const last = subjects.at(-1);
        if (last?.serverId === serverId && last.subject === subject) last.counts.push(counts);
        else subjects.push({ serverId, subject, counts: [counts] });
      }
      return subjects;
    },

    async ofServers(span, serverIds) {
      if (serverIds.length === 0) return [];
      const { from, until } = span;
      const { seconds } = periods[span.period];
      const first = from - (from % seconds);
      const times = Array.from(
        { length: Math.ceil((until - first) / seconds) },
        (_, step) => first + step * seconds,
      );
      // Each period of each server is a leap to where its rows lie, past those of all other servers.
      const rows = await summed(db, span, 'server')
        .select(['server_id', 'bucket'])
        .where('at', 'in', times)
        .where('server_id', 'in', serverIds)
        .groupBy(['server_id', 'bucket'])
        .orderBy('server_id')
        .orderBy('bucket')
        .execute();
      const servers: { readonly serverId: string; readonly counts: TimedCounts[] }[] = [];
      for (const { server_id: serverId, bucket, ...sums } of rows) {
        const counts = Object.assign(countsOf(sums), { bucket });
        const last = servers.at(-1);
        if (last?.serverId === serverId) last.counts.push(counts);
        else servers.push({ serverId, counts: [counts] });
      }
      return servers;
    },

    async counts(span, kind, subjects) {
      if (subjects.length === 0) return [];
      const rows = await ofAny(summed(db, span, kind), subjects)
        .select([stepOf(span).as('at'), 'server_id', 'subject'])
        .groupBy([stepOf(span), 'server_id', 'subject'])
        .orderBy('at')
        .execute();
      return rows.map(({ at, server_id: serverId, subject, ...sums }) =>
        Object.assign(countsOf(sums), { at, serverId, subject }),
      );
    },
  };
}

type Sums = Pick<Schema['usage_rollup'], 'calls' | 'tool_errors' | 'refused' | 'upstream_errors'>;

function summed(
  db: QueryCreator<Schema>,
  { organizationId, period, from, until }: RollupSpan,
  kind: string,
) {
  return db
    .selectFrom('usage_rollup')
    .where('organization_id', '=', organizationId)
    .where('kind', '=', kind)
    .where('period', '=', period)
    .where('at', '>=', from)
    .where('at', '<', until)
    .select((row) => [
      row.fn.sum<number>('calls').as('calls'),
      row.fn.sum<number>('tool_errors').as('tool_errors'),
      row.fn.sum<number>('refused').as('refused'),
      row.fn.sum<number>('upstream_errors').as('upstream_errors'),
    ]);
}

function stepOf({ stepSeconds }: RollupSpan) {
  return sql<number>`at - at % ${sql.lit(stepSeconds)}`;
}

function ofAny(query: ReturnType<typeof summed>, subjects: readonly CallSubject[]) {
  // One look into a list for each row, where fifty alternatives would be tried in turn.
  const wanted = subjects.map(({ serverId, subject }) => sql`(${serverId}, ${subject})`);
  return query.where(sql<boolean>`(server_id, subject) in (values ${sql.join(wanted)})`);
}

function countsOf(row: Sums): CallCounts {
  return {
    calls: row.calls,
    toolErrors: row.tool_errors,
    refused: row.refused,
    upstreamErrors: row.upstream_errors,
  };
}
