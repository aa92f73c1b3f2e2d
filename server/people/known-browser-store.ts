import type { EpochSeconds } from '#clock/clock';

/** A browser stays known for this long after the last sign-in there. */
export const knownBrowserLifeSeconds = 365 * 24 * 60 * 60;

/** Which browsers have signed in before, and as whom. Only the SHA-256 of their cookie is stored. */
export interface KnownBrowserStore {
  /** The people who signed in with this cookie since then. */
  people(tokenHash: string, since: EpochSeconds): Promise<string[]>;

  /** Notes that somebody signed in. Only the latest twenty browsers of a person stay known, each for a year. */
  remember(tokenHash: string, userId: string, now: EpochSeconds): Promise<void>;
}
