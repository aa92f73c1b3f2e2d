import { randomUUID } from 'node:crypto';

import type { Kysely } from 'kysely';

import type { AttemptStore } from '#people/attempt-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

const keptSeconds = 24 * 60 * 60;

/** Failed attempts in SQL, one row each, kept for a day. */
export function attemptStore(db: Kysely<Schema>): AttemptStore {
  return {
    async begin(subject, at, since) {
      return inTransaction(db, async (transaction) => {
        await transaction
          .deleteFrom('failed_attempt')
          .where('failed_at', '<', at - keptSeconds)
          .execute();
        const { count, last } = await transaction
          .selectFrom('failed_attempt')
          .select(({ fn }) => [fn.countAll().as('count'), fn.max('failed_at').as('last')])
          .where('subject', '=', subject)
          .where('failed_at', '>=', since)
          .executeTakeFirstOrThrow();
        await transaction
          .insertInto('failed_attempt')
          .values({ id: randomUUID(), subject, failed_at: at })
          .execute();
        return { count: Number(count), lastAt: last ?? 0 };
      });
    },

    async forgive(subject, at) {
      await db
        .deleteFrom('failed_attempt')
        .where('id', '=', (select) =>
          select
            .selectFrom('failed_attempt')
            .select('id')
            .where('subject', '=', subject)
            .where('failed_at', '=', at)
            .limit(1),
        )
        .execute();
    },

    async clear(subject) {
      await db.deleteFrom('failed_attempt').where('subject', '=', subject).execute();
    },
  };
}
