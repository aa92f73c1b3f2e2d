import type { EpochSeconds } from '#clock/clock';
import type { Schema } from './schema.ts';
import { quickTransaction, type Db } from './transaction.ts';

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

/** Stores when credentials were last used, in one transaction. A time older than the stored one is ignored. */
export async function updateLastUses(
  db: Db,
  uses: readonly (CredentialUse & { readonly usedAt: EpochSeconds })[],
): Promise<void> {
  // Always in the same order: transactions that update the same rows in different orders can deadlock.
  const sorted = uses.toSorted((a, b) => (`${a.type} ${a.id}` < `${b.type} ${b.id}` ? -1 : 1));
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
