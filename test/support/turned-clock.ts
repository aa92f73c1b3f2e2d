import type { Clock } from '#server/model/clock';

/** Time that a test turns on by hand, where nobody sleeps. */
export function turnedClock(now = 1_800_000_000): Clock & { advance(seconds: number): void } {
  let at = now;
  return {
    now: () => at,
    advance(seconds) {
      at += seconds;
    },
  };
}
