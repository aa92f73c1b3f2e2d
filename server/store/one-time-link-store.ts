import type { Kysely } from 'kysely';

import type { LinkPurpose, OneTimeLinkStore } from '#people/one-time-link-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** One-time links in SQL; a used one is gone. */
export function oneTimeLinkStore(db: Kysely<Schema>): OneTimeLinkStore {
  return {
    async add(tokenHash, purpose, expiresAt) {
      const personId = purpose.type === 'reset' ? purpose.userId : null;
      await inTransaction(db, async (transaction) => {
        await transaction
          .deleteFrom('one_time_link')
          .where('purpose', '=', purpose.type)
          .where('person_id', personId === null ? 'is' : '=', personId)
          .execute();
        await transaction
          .insertInto('one_time_link')
          .values({
            token_hash: tokenHash,
            purpose: purpose.type,
            person_id: personId,
            expires_at: expiresAt,
          })
          .execute();
      });
    },

    async peek(tokenHash, now) {
      const row = await db
        .selectFrom('one_time_link')
        .selectAll()
        .where('token_hash', '=', tokenHash)
        .where('expires_at', '>', now)
        .executeTakeFirst();
      return row && readPurpose(row);
    },

    async take(tokenHash, now) {
      const row = await db
        .deleteFrom('one_time_link')
        .where('token_hash', '=', tokenHash)
        .where('expires_at', '>', now)
        .returningAll()
        .executeTakeFirst();
      return row && readPurpose(row);
    },
  };
}

function readPurpose(row: { purpose: string; person_id: string | null }): LinkPurpose {
  return row.person_id === null ? { type: 'set-up' } : { type: 'reset', userId: row.person_id };
}
