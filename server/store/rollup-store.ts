import type { Insertable, Kysely } from 'kysely';

import { periods, type Period } from '#usage/period';
import type { CallTally, RollupStore } from '#usage/rollup-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

type Row = Insertable<Schema['usage_rollup']>;

const rowsAtOnce = 128;
const forgottenAtOnce = 60;

/** Counted calls in SQL. Every period is added to at once, so that each is complete at all times. */
export function rollupStore(db: Kysely<Schema>, transact = inTransaction): RollupStore {
  return {
    async record(tallies) {
      if (tallies.length === 0) return;
      await transact(db, async (transaction) => {
        const owners = await ownersOf(tallies, transaction);
        const rows = rowsOf(tallies, owners);
        while (rows.length > 0) {
          // By powers of two, so that there are few statements to prepare and keep.
          const count = 2 ** Math.floor(Math.log2(Math.min(rows.length, rowsAtOnce)));
          await add(rows.splice(0, count), transaction);
        }
      });
    },

    async names() {
      const rows = await db
        .selectFrom('usage_rollup')
        .select(['server_id', 'kind', 'subject'])
        .distinct()
        .where('period', '=', 'day')
        .where('kind', 'in', ['tool', 'method'])
        .orderBy('server_id')
        .orderBy('kind')
        .orderBy('subject')
        .execute();
      return rows.map((row) => ({
        serverId: row.server_id,
        kind: row.kind === 'tool' ? 'tool' : 'method',
        subject: row.subject,
      }));
    },

    async forget(now) {
      for (const [period, { keptSeconds }] of Object.entries(periods)) {
        const old = await db
          .selectFrom('usage_rollup')
          .select('at')
          .distinct()
          .where('period', '=', period)
          .where('at', '<', now - keptSeconds)
          .orderBy('at')
          .limit(forgottenAtOnce)
          .execute();
        const last = old.at(-1);
        if (!last) continue;
        await db
          .deleteFrom('usage_rollup')
          .where('period', '=', period)
          .where('at', '<=', last.at)
          .execute();
      }
    },
  };
}

async function ownersOf(
  tallies: readonly CallTally[],
  db: Kysely<Schema>,
): Promise<ReadonlyMap<string, string>> {
  const ids = [...new Set(tallies.map(({ serverId }) => serverId))];
  const rows = await db
    .selectFrom('mcp_server')
    .select(['id', 'organization_id'])
    .where('id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.id, row.organization_id]));
}

/** Each tally in its minute, hour and day, and what is counted for a server for its organization too. */
function rowsOf(tallies: readonly CallTally[], owners: ReadonlyMap<string, string>): Row[] {
  const rows = new Map<string, Row>();
  const count = (period: Period, tally: CallTally, but: Pick<Row, 'organization_id' | 'kind'>) => {
    const isWhole = but.kind === 'organization';
    const key = {
      ...but,
      period,
      at: tally.at - (tally.at % periods[period].seconds),
      server_id: isWhole ? '' : tally.serverId,
      subject: isWhole ? '' : tally.subject,
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
  return [...rows.values()];
}

async function add(rows: readonly Row[], db: Kysely<Schema>): Promise<void> {
  await db
    .insertInto('usage_rollup')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(['organization_id', 'kind', 'period', 'at', 'server_id', 'subject', 'bucket'])
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
