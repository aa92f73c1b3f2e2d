import type { Kysely } from 'kysely';

import type { UsageStore } from '#credentials/usage';
import type { Schema } from './schema.ts';

/** Last uses in SQL, all of them in one transaction. */
export function usageStore(db: Kysely<Schema>): UsageStore {
  return {
    async record(uses) {
      await db.transaction().execute(async (transaction) => {
        for (const { type, id, usedAt } of uses) {
          await transaction
            .updateTable(type === 'client' ? 'oauth_client' : 'api_key')
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
