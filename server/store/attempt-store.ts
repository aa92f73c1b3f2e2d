import { randomUUID } from 'node:crypto';

import type { Kysely } from 'kysely';

import { attemptLifeSeconds, type AttemptStore } from '#people/attempt-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Failed attempts in SQL, one row each. */
export function attemptStore(db: Kysely<Schema>): AttemptStore {
  return {
    async begin({ subject, place, at }, since, waitOf) {
      return inTransaction(db, async (transaction) => {
        // Comes first, as a transaction that begins by writing waits for those of other processes.
        await transaction
          .deleteFrom('failed_attempt')
          .where('failed_at', '<', at - attemptLifeSeconds)
          .execute();
        const places = await transaction
          .selectFrom('failed_attempt')
          .select(({ fn }) => ['place', fn.countAll().as('count'), fn.max('failed_at').as('last')])
          .where('subject', '=', subject)
          .where('failed_at', '>=', since.subject)
          .groupBy('place')
          .execute();
        const { count, last } = await transaction
          .selectFrom('failed_attempt')
          .select(({ fn }) => [fn.countAll().as('count'), fn.max('failed_at').as('last')])
          .where('place', '=', place)
          .where('failed_at', '>=', since.place)
          .executeTakeFirstOrThrow();
        const waitSeconds = waitOf({
          atSubject: new Map(
            places.map((row) => [row.place, { count: Number(row.count), lastAt: row.last }]),
          ),
          fromPlace: { count: Number(count), lastAt: last ?? 0 },
        });
        if (waitSeconds > 0) return waitSeconds;
        await transaction
          .insertInto('failed_attempt')
          .values({ id: randomUUID(), subject, place, failed_at: at })
          .execute();
        return 0;
      });
    },

    async clear(subject, place) {
      await db
        .deleteFrom('failed_attempt')
        .where('subject', '=', subject)
        .$if(place !== undefined, (query) => query.where('place', '=', place ?? ''))
        .execute();
    },
  };
}
