import type { Kysely } from 'kysely';

import type { RecoveryCodeStore } from '#people/totp-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Recovery codes in SQL; a used one is gone. */
export function recoveryCodeStore(db: Kysely<Schema>): RecoveryCodeStore {
  return {
    async use(userId, hash) {
      const { numDeletedRows } = await db
        .deleteFrom('recovery_code')
        .where('person_id', '=', userId)
        .where('hash', '=', hash)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },

    async count(userId) {
      const { count } = await db
        .selectFrom('recovery_code')
        .select(({ fn }) => fn.countAll().as('count'))
        .where('person_id', '=', userId)
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    async replace(userId, hashes) {
      await inTransaction(db, async (transaction) => {
        await transaction.deleteFrom('recovery_code').where('person_id', '=', userId).execute();
        const rows = hashes.map((hash) => ({ hash, person_id: userId }));
        await transaction.insertInto('recovery_code').values(rows).execute();
      });
    },
  };
}
