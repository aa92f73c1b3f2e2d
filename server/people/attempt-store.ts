import type { EpochSeconds } from '#clock/clock';

/** Counts failed attempts to prove who one is, by subject: an account, an address, an OAuth client. */
export interface AttemptStore {
  /**
   * Notes an attempt as failed before it is looked at, so that many at once are counted one by one. Tells
   * of those before it: how many since `since`, and when the last was (0 when there was none).
   */
  begin(
    subject: string,
    at: EpochSeconds,
    since: EpochSeconds,
  ): Promise<{ count: number; lastAt: EpochSeconds }>;

  /** Takes back one attempt that began at `at`: it succeeded, or was not looked at. */
  forgive(subject: string, at: EpochSeconds): Promise<void>;

  /** Forgets the failures of a subject that has now proved itself. */
  clear(subject: string): Promise<void>;
}
