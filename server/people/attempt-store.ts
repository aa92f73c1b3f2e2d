import type { EpochSeconds } from '#clock/clock';

/** For how long failed attempts are stored, and so the longest time that they can be counted over. */
export const attemptLifeSeconds = 24 * 60 * 60;

/** What somebody tries to prove, and where from. */
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

/** Counts failed attempts to prove who one is, for a day. */
export interface AttemptStore {
  /**
   * Stores an attempt as failed before it is looked at, unless `waitOf` makes it wait for what failed earlier. Counting,
   * deciding and storing are one transaction, so that many attempts at the same moment are counted one by one. One
   * that has to wait leaves nothing behind.
   *
   * @returns the seconds to wait; 0 when the attempt may be looked at
   */
  begin(
    attempt: Attempt & { readonly at: EpochSeconds },
    /** From when on failures of the subject, and of the place, are counted. */
    since: { readonly subject: EpochSeconds; readonly place: EpochSeconds },
    waitOf: (earlier: EarlierFailures) => number,
  ): Promise<number>;

  /** Forgets the failures at a subject that has now been proved: all of them, or those from one place. */
  clear(subject: string, place?: string): Promise<void>;
}
