import type { Kysely } from 'kysely';

import type { ChallengeStore } from '#people/challenge-store';
import type { Schema } from './schema.ts';

/** Answered challenges in SQL. */
export function challengeStore(db: Kysely<Schema>): ChallengeStore {
  return {
    async spend(challengeHash, expiresAt, now) {
      await db.deleteFrom('spent_challenge').where('expires_at', '<=', now).execute();
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('spent_challenge')
        .values({ hash: challengeHash, expires_at: expiresAt })
        .onConflict((conflict) => conflict.column('hash').doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },
  };
}
