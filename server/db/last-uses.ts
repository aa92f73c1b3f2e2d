import type { EpochSeconds } from '#clock/clock';
import type { Schema } from './schema.ts';
import { quickTransaction, type Db } from './transaction.ts';

/** What was used: an OAuth client by its `client_id`, a key or a person's grant by its id. */
export interface CredentialUse {
  readonly type: 'client' | 'key' | 'grant';
  readonly id: string;
}

const tables = {
  client: 'oauth_client',
  grant: 'oauth_grant',
  key: 'api_key',
} as const satisfies Record<CredentialUse['type'], keyof Schema>;

/** Stores when credentials were last used, all of them at once; a time older than the one stored changes nothing. */
export async function updateLastUses(
  db: Db,
  uses: readonly (CredentialUse & { readonly usedAt: EpochSeconds })[],
): Promise<void> {
  // In one order everywhere: transactions that update the same rows in different orders wait for each other.
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
