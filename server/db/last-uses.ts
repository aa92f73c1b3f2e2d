import { sql } from 'kysely';
import type { EpochSeconds } from '#model/clock';
import type { Schema } from './schema.ts';
import { isPostgres, quickTransaction, type Db } from './transaction.ts';

/** A credential that was used: an OAuth client, identified by its `client_id`, or a key or grant by its id. */
export interface CredentialUse {
  readonly type: 'client' | 'key' | 'grant';
  readonly id: string;
}

const tables = {
  client: 'oauth_client',
  grant: 'oauth_grant',
  key: 'api_key',
} as const satisfies Record<CredentialUse['type'], keyof Schema>;

type Use = CredentialUse & { readonly usedAt: EpochSeconds };

/** Stores when credentials were last used. A time older than the stored one is ignored. */
export async function updateLastUses(db: Db, uses: readonly Use[]): Promise<void> {
  // Always in the same order: transactions that update the same rows in different orders can deadlock.
  const sorted = uses.toSorted((a, b) => (`${a.type} ${a.id}` < `${b.type} ${b.id}` ? -1 : 1));
  if (isPostgres(db)) return updateInPostgres(db, sorted);
  await quickTransaction(db, async (tx) => {
    for (const { type, id, usedAt } of sorted) {
      await tx
        .updateTable(tables[type])
        .set({ last_used_at: usedAt })
        .where('id', '=', id)
        .where((where) =>
          where.or([where('last_used_at', 'is', null), where('last_used_at', '<', usedAt)]),
        )
        .execute();
    }
  });
}

/** One statement and one transaction for each table: a revocation must not wait until many rows have been updated one by one. */
async function updateInPostgres(db: Db, sorted: readonly Use[]): Promise<void> {
  for (const [type, table] of Object.entries(tables)) {
    const own = sorted.filter((use) => use.type === type);
    if (own.length === 0) continue;
    const name = sql.table(table);
    await quickTransaction(db, (tx) =>
      sql`update ${name} set last_used_at = due.used_at from (
          select stored.id, used.used_at
          from unnest(${own.map(({ id }) => id)}::text[], ${own.map(({ usedAt }) => usedAt)}::bigint[]) as used(id, used_at)
          join ${name} stored on stored.id = used.id
          where stored.last_used_at is null or stored.last_used_at < used.used_at
          order by stored.id for update of stored
        ) due where ${name}.id = due.id`.execute(tx),
    );
  }
}
