import { randomUUID } from 'node:crypto';

import type { EpochSeconds } from '#model/clock';
import { attemptLifeSeconds } from '#model/lifetimes';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/** The subject of an attempt, and the place that it came from. */
export interface Attempt {
  /** An account or a person. */
  readonly subject: string;
  /** A network, or a known browser of the account. */
  readonly place: string;
  /** The text that all places in the widest network around `place` begin with, if there is such a network. */
  readonly around?: string | undefined;
}

export interface Failures {
  readonly count: number;
  readonly lastAt: EpochSeconds;
}

/** Failures before an attempt. */
export interface EarlierFailures {
  /** Of the same subject, by place. */
  readonly atSubject: ReadonlyMap<string, Failures>;
  /** Of any subject, by place: this place, and those in the network around it. */
  readonly nearby: ReadonlyMap<string, Failures>;
}

/**
 * Stores an attempt as failed before it is checked, unless `secondsToWait` makes it wait because of earlier failures.
 * Counting, deciding and storing are one transaction, so concurrent attempts are counted one by one. An attempt that has
 * to wait is not stored.
 *
 * @param since failures of the subject, and from places nearby, before these times are ignored
 * @returns the seconds to wait; 0 when the attempt may be checked
 */
export async function insertAttempt(
  db: Db,
  { subject, place, around, at }: Attempt & { readonly at: EpochSeconds },
  since: { readonly subject: EpochSeconds; readonly place: EpochSeconds },
  secondsToWait: (earlier: EarlierFailures) => number,
): Promise<number> {
  return transaction(db, async (tx) => {
    // Each attempt locks its subject before its place, so that two attempts cannot deadlock.
    await advisoryLock(tx, `attempts at ${subject}`);
    await advisoryLock(tx, `attempts from ${around ?? place}`);
    await tx
      .deleteFrom('failed_attempt')
      .where('failed_at', '<', at - attemptLifeSeconds)
      .execute();
    const failures = tx
      .selectFrom('failed_attempt')
      .select(({ fn }) => ['place', fn.countAll().as('count'), fn.max('failed_at').as('last')])
      .groupBy('place');
    const places = await failures
      .where('subject', '=', subject)
      .where('failed_at', '>=', since.subject)
      .execute();
    const nearby = await failures
      .where((row) =>
        around === undefined ? row('place', '=', place) : row('place', 'like', `${around}%`),
      )
      .where('failed_at', '>=', since.place)
      .execute();
    const waitSeconds = secondsToWait({ atSubject: byPlace(places), nearby: byPlace(nearby) });
    if (waitSeconds > 0) return waitSeconds;
    await tx
      .insertInto('failed_attempt')
      .values({ id: randomUUID(), subject, place, failed_at: at })
      .execute();
    return 0;
  });
}

function byPlace(
  rows: readonly { place: string; count: number | string | bigint; last: EpochSeconds }[],
): ReadonlyMap<string, Failures> {
  return new Map(
    rows.map(({ place, count, last }) => [place, { count: Number(count), lastAt: last }]),
  );
}

/** Deletes the failures of a subject after a success: all of them, or those from one place. */
export async function clearAttempts(db: Db, subject: string, place?: string): Promise<void> {
  await db
    .deleteFrom('failed_attempt')
    .where('subject', '=', subject)
    .$if(place !== undefined, (query) => query.where('place', '=', place ?? ''))
    .execute();
}
