import type { EpochSeconds } from '#clock/clock';

/** Counts failed attempts to prove who one is, by subject: an account, an address, an OAuth client. */
export interface AttemptStore {
  /** Failures of this subject since `since`, and when the last was. */
  failures(subject: string, since: EpochSeconds): Promise<{ count: number; lastAt: EpochSeconds }>;

  /** Notes a failure. */
  fail(subject: string, at: EpochSeconds): Promise<void>;

  /** Forgets the failures of a subject that has now proved itself. */
  clear(subject: string): Promise<void>;
}
