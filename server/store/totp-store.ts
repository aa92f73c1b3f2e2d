import type { Kysely } from 'kysely';

import type { TotpStore } from '#people/totp-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Generators of one-time codes in SQL. */
export function totpStore(db: Kysely<Schema>): TotpStore {
  return {
    async of(userId) {
      const row = await db
        .selectFrom('totp')
        .selectAll()
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return (
        row && {
          userId: row.person_id,
          sealedSecret: row.sealed_secret,
          createdAt: row.created_at,
          confirmedAt: row.confirmed_at ?? undefined,
          lastStep: row.last_step,
        }
      );
    },

    async begin({ userId, sealedSecret, createdAt }) {
      const kept = { sealed_secret: sealedSecret, created_at: createdAt };
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('totp')
        .values({ person_id: userId, ...kept, confirmed_at: null, last_step: 0 })
        .onConflict((conflict) =>
          conflict.column('person_id').doUpdateSet(kept).where('totp.confirmed_at', 'is', null),
        )
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async confirm(userId, { step, now, recoveryHashes }) {
      return inTransaction(db, async (transaction) => {
        const { numUpdatedRows } = await transaction
          .updateTable('totp')
          .set({ confirmed_at: now, last_step: step })
          .where('person_id', '=', userId)
          .where('confirmed_at', 'is', null)
          .executeTakeFirst();
        if (numUpdatedRows !== 1n) return false;
        await transaction.deleteFrom('recovery_code').where('person_id', '=', userId).execute();
        const rows = recoveryHashes.map((hash) => ({ hash, person_id: userId }));
        await transaction.insertInto('recovery_code').values(rows).execute();
        return true;
      });
    },

    async use(userId, step) {
      const { numUpdatedRows } = await db
        .updateTable('totp')
        .set({ last_step: step })
        .where('person_id', '=', userId)
        .where('confirmed_at', 'is not', null)
        .where('last_step', '<', step)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async remove(userId) {
      return inTransaction(db, async (transaction) => {
        await transaction.deleteFrom('recovery_code').where('person_id', '=', userId).execute();
        const { numDeletedRows } = await transaction
          .deleteFrom('totp')
          .where('person_id', '=', userId)
          .executeTakeFirst();
        return numDeletedRows === 1n;
      });
    },
  };
}
