/** Seconds since 1970, without a fraction. */
export type EpochSeconds = number;

/** The time of day. Tests set it by hand. */
export interface Clock {
  now(): EpochSeconds;
}

export function systemClock(): Clock {
  return { now: () => Math.floor(Date.now() / 1000) };
}
