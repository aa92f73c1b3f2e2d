import type { Clock } from '#server/model/clock';

/** A clock that a test advances, for code that does not sleep. */
export function turnedClock(now = 1_800_000_000): Clock & { advance(seconds: number): void } {
  let at = now;
  return {
    now: () => at,
    advance(seconds) {
      at += seconds;
    },
  };
}
