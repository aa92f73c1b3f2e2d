/** Tells when the machine has slept, from two clocks of which one stands still meanwhile. */
export interface WakeWatch {
  /** Whether it has woken since this was last asked, or within `seconds` before. */
  wokeWithin(seconds: number): boolean;
}

/** Clocks are set by less than that all the time. */
const driftMs = 30_000;

/**
 * `wallMs` goes on while the machine sleeps, `steadyMs` does not (on Windows it does: there a sleep is
 * not seen). A clock that is set by hand looks like a sleep, which costs no more than a question.
 */
export function wakeWatch(wallMs: () => number, steadyMs: () => number): WakeWatch {
  let apart = wallMs() - steadyMs();
  let wokeAtMs = -Infinity;
  return {
    wokeWithin(seconds) {
      const now = wallMs() - steadyMs();
      if (Math.abs(now - apart) > driftMs) wokeAtMs = steadyMs();
      apart = now;
      return steadyMs() - wokeAtMs < seconds * 1_000;
    },
  };
}
