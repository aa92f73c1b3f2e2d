import type { Kysely } from 'kysely';

import type { CredentialUse, UsageStore } from '#credentials/usage';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

const tables = {
  client: 'oauth_client',
  key: 'api_key',
  grant: 'oauth_grant',
} as const satisfies Record<CredentialUse['type'], keyof Schema>;

/** Last uses in SQL, all of them in one transaction. */
export function usageStore(db: Kysely<Schema>, transact = inTransaction): UsageStore {
  return {
    async record(uses) {
      await transact(db, async (transaction) => {
        for (const { type, id, usedAt } of uses) {
          await transaction
            .updateTable(tables[type])
            .set({ last_used_at: usedAt })
            .where('id', '=', id)
            .where((where) =>
              where.or([where('last_used_at', 'is', null), where('last_used_at', '<', usedAt)]),
            )
            .execute();
        }
      });
    },
  };
}
