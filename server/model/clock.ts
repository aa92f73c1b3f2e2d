/** Seconds since 1970, without a fraction. */
export type EpochSeconds = number;

/** The time of day, as a port: tests turn it by hand. */
export interface Clock {
  now(): EpochSeconds;
}

/** The machine's own clock. */
export function systemClock(): Clock {
  return { now: () => Math.floor(Date.now() / 1000) };
}
