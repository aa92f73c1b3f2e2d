import type { EpochSeconds } from '#clock/clock';

/**
 * Revokes everything that applications and programs hold in a person's name, before the password that could
 * have let somebody else allow it is replaced.
 */
export type EndGrants = (userId: string, now: EpochSeconds) => Promise<void>;
