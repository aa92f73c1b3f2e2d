import type { EpochSeconds } from '#clock/clock';

/** Remembers which challenges have been answered, so that none is twice. */
export interface ChallengeStore {
  /** `true` for the first to answer it. Forgotten after `expiresAt`, when it is refused for its age. */
  spend(challengeHash: string, expiresAt: EpochSeconds, now: EpochSeconds): Promise<boolean>;
}
