import type { Kysely } from 'kysely';

import type { AssertionStore } from '#oauth/assertion-store';
import type { Schema } from './schema.ts';

/** Used client assertions in SQL, each kept until it would have expired anyway. */
export function assertionStore(db: Kysely<Schema>): AssertionStore {
  return {
    async use({ clientId, jti, expiresAt }, now) {
      await db.deleteFrom('used_assertion').where('expires_at', '<', now).execute();
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('used_assertion')
        .values({ client_id: clientId, jti, expires_at: expiresAt })
        .onConflict((conflict) => conflict.columns(['client_id', 'jti']).doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },
  };
}
