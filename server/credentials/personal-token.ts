import type { EpochSeconds } from '#clock/clock';

/** What a person uses the admin API with, without its value, which was shown once. */
export interface PersonalToken {
  /** `token_` and 16 base62 characters; opens nothing. */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** Prefix and last four characters. */
  readonly hint: string;
  readonly createdAt: EpochSeconds;
  readonly expiresAt: EpochSeconds;
  /** How many factors whoever made it had proved. */
  readonly factors: 1 | 2;
  /** To the minute. */
  readonly lastUsedAt: EpochSeconds | undefined;
  readonly revokedAt: EpochSeconds | undefined;
}

export type NewPersonalToken = Omit<PersonalToken, 'lastUsedAt' | 'revokedAt'> & {
  readonly hash: string;
};

/** Where personal tokens are kept. They go with their person. */
export interface PersonalTokenStore {
  /** `false`, and nothing changed, when the person has `most` that count already. */
  add(token: NewPersonalToken, most: number): Promise<boolean>;

  /** The token of this hash if it counts at `now`, its use noted within a minute. */
  use(hash: string, now: EpochSeconds): Promise<PersonalToken | undefined>;

  /** All of a person's, the newest first. */
  list(userId: string): Promise<PersonalToken[]>;

  /** `false` when that person has no such token, or it was revoked before. */
  revoke(userId: string, id: string, now: EpochSeconds): Promise<boolean>;

  revokeAll(userId: string, now: EpochSeconds): Promise<void>;
}
