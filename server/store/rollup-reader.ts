import { sql, type Kysely } from 'kysely';

import type { RollupReader, RollupSpan } from '#usage/rollup-reader';
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
      const subjects = await summed(db, span, kind)
        .select(['server_id', 'subject'])
        .groupBy(['server_id', 'subject'])
        .orderBy('calls', 'desc')
        .orderBy('server_id')
        .orderBy('subject')
        .limit(limit)
        .execute();
      if (subjects.length === 0) return [];
      const named = subjects.map(({ server_id: serverId, subject }) => ({ serverId, subject }));
      const rows = await ofAny(summed(db, span, kind), named)
        .select(['server_id', 'subject', 'bucket'])
        .groupBy(['server_id', 'subject', 'bucket'])
        .execute();
      return named.map(({ serverId, subject }) => ({
        serverId,
        subject,
        counts: rows
          .filter((row) => row.server_id === serverId && row.subject === subject)
          .map((row) => Object.assign(countsOf(row), { bucket: row.bucket })),
      }));
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
  db: Kysely<Schema>,
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
