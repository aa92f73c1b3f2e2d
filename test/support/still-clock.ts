import type { Clock, EpochSeconds } from '#server/model/clock';

/** A clock that stands still until it is turned by hand. */
export interface StillClock extends Clock {
  advance(seconds: number): void;
}

export function stillClock(startAt: EpochSeconds = 1_800_000_000): StillClock {
  let now = startAt;
  return {
    now: () => now,
    advance(seconds) {
      now += seconds;
    },
  };
}
