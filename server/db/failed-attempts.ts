import { randomUUID } from 'node:crypto';

import type { EpochSeconds } from '#clock/clock';
import { attemptLifeSeconds } from '#accounts/lifetimes';
import { alone, transaction, type Db } from './transaction.ts';

/** What was attempted, and from where. */
export interface Attempt {
  /** An account or a person. */
  readonly subject: string;
  /** A network, or a browser that is known for the account. */
  readonly place: string;
}

export interface Failures {
  readonly count: number;
  readonly lastAt: EpochSeconds;
}

/** What failed before an attempt. */
export interface EarlierFailures {
  /** At the same subject, by place. */
  readonly atSubject: ReadonlyMap<string, Failures>;
  /** From the same place, whatever the subject. */
  readonly fromPlace: Failures;
}

/**
 * Stores an attempt as failed before it is looked at, unless `waitOf` makes it wait for what failed earlier. Counting,
 * deciding and storing are one transaction, so that many attempts at the same moment are counted one by one. One
 * that has to wait leaves nothing behind.
 *
 * @param since from when on failures of the subject, and of the place, are counted
 * @returns the seconds to wait; 0 when the attempt may be looked at
 */
export async function insertAttempt(
  db: Db,
  { subject, place, at }: Attempt & { readonly at: EpochSeconds },
  since: { readonly subject: EpochSeconds; readonly place: EpochSeconds },
  waitOf: (earlier: EarlierFailures) => number,
): Promise<number> {
  return transaction(db, async (tx) => {
    // Each attempt takes the lock of a subject before that of a place, so two cannot wait for each other.
    await alone(tx, `attempts at ${subject}`);
    await alone(tx, `attempts from ${place}`);
    await tx
      .deleteFrom('failed_attempt')
      .where('failed_at', '<', at - attemptLifeSeconds)
      .execute();
    const places = await tx
      .selectFrom('failed_attempt')
      .select(({ fn }) => ['place', fn.countAll().as('count'), fn.max('failed_at').as('last')])
      .where('subject', '=', subject)
      .where('failed_at', '>=', since.subject)
      .groupBy('place')
      .execute();
    const { count, last } = await tx
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
    await tx
      .insertInto('failed_attempt')
      .values({ id: randomUUID(), subject, place, failed_at: at })
      .execute();
    return 0;
  });
}

/** Forgets the failures at a subject that has now been proved: all of them, or those from one place. */
export async function clearAttempts(db: Db, subject: string, place?: string): Promise<void> {
  await db
    .deleteFrom('failed_attempt')
    .where('subject', '=', subject)
    .$if(place !== undefined, (query) => query.where('place', '=', place ?? ''))
    .execute();
}
