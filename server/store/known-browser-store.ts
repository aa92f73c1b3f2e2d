import type { Kysely } from 'kysely';

import { knownBrowserLifeSeconds, type KnownBrowserStore } from '#people/known-browser-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

const mostOfPerson = 20;

/** Known browsers in SQL. */
export function knownBrowserStore(db: Kysely<Schema>): KnownBrowserStore {
  return {
    async people(tokenHash, since) {
      const rows = await db
        .selectFrom('known_browser')
        .select('person_id')
        .where('token_hash', '=', tokenHash)
        .where('seen_at', '>', since)
        .execute();
      return rows.map(({ person_id: userId }) => userId);
    },

    async remember(tokenHash, userId, now) {
      await inTransaction(db, async (transaction) => {
        await transaction
          .deleteFrom('known_browser')
          .where('seen_at', '<=', now - knownBrowserLifeSeconds)
          .execute();
        await transaction
          .insertInto('known_browser')
          .values({ token_hash: tokenHash, person_id: userId, seen_at: now })
          .onConflict((conflict) =>
            conflict.columns(['token_hash', 'person_id']).doUpdateSet({ seen_at: now }),
          )
          .execute();
        const others = transaction
          .selectFrom('known_browser')
          .select('token_hash')
          .where('person_id', '=', userId)
          .where('token_hash', '<>', tokenHash)
          .orderBy('seen_at', 'desc')
          .limit(mostOfPerson - 1);
        await transaction
          .deleteFrom('known_browser')
          .where('person_id', '=', userId)
          .where('token_hash', '<>', tokenHash)
          .where('token_hash', 'not in', others)
          .execute();
      });
    },
  };
}
