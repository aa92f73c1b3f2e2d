import type { EpochSeconds } from '#clock/clock';

/** The generator of one-time codes that a person enrolled. RFC 6238 */
export interface Totp {
  readonly userId: string;
  /** The shared secret, encrypted under the master key. */
  readonly sealedSecret: string;
  readonly createdAt: EpochSeconds;
  /** Since when it is asked for; until then the person has not shown that they have it. */
  readonly confirmedAt: EpochSeconds | undefined;
  /** The last 30-second step whose code was used. */
  readonly lastStep: number;
}

/** Where code generators are kept, one a person at most. */
export interface TotpStore {
  of(userId: string): Promise<Totp | undefined>;

  /** Begins an enrolment, in place of one that was never confirmed; `false` when one was. */
  begin(totp: Pick<Totp, 'userId' | 'sealedSecret' | 'createdAt'>): Promise<boolean>;

  /** Confirms the enrolment with its first code and keeps the recovery codes; `false` when another came first. */
  confirm(
    userId: string,
    proof: { step: number; now: EpochSeconds; recoveryHashes: readonly string[] },
  ): Promise<boolean>;

  /** Uses up the code of `step` and all before it; `false` when that step, or a later one, was used. */
  use(userId: string, step: number): Promise<boolean>;

  /** Removes the generator and the recovery codes; `false` when there was none. */
  remove(userId: string): Promise<boolean>;
}

/** Codes for when the generator is lost, by their hashes. */
export interface RecoveryCodeStore {
  /** Uses one up; `true` for the first to bring it. */
  use(userId: string, hash: string): Promise<boolean>;

  /** How many are left. */
  count(userId: string): Promise<number>;

  /** Puts new ones in place of all there were. */
  replace(userId: string, hashes: readonly string[]): Promise<void>;
}
