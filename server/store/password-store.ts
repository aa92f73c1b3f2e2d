import type { Kysely } from 'kysely';

import type { PasswordStore } from '#people/password-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Password hashes in SQL. */
export function passwordStore(db: Kysely<Schema>): PasswordStore {
  return {
    async hashOf(userId) {
      const row = await db
        .selectFrom('password')
        .select('hash')
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return row?.hash;
    },

    async set(userId, hash) {
      await inTransaction(db, async (transaction) => {
        await transaction
          .insertInto('password')
          .values({ person_id: userId, hash })
          .onConflict((conflict) => conflict.column('person_id').doUpdateSet({ hash }))
          .execute();
        await transaction.deleteFrom('browser_session').where('person_id', '=', userId).execute();
      });
    },
  };
}
