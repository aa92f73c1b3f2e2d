/** Seconds since 1970-01-01 00:00 UTC. */
export type EpochSeconds = number;

/** The current time, and waiting. */
export interface Clock {
  now(): EpochSeconds;

  /** Resolves after `ms`, or as soon as `signal` aborts; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export function systemClock(): Clock {
  return {
    now: () => Math.floor(Date.now() / 1000),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const done = () => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        signal?.addEventListener('abort', done, { once: true });
      }),
  };
}

export async function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Clocks are often adjusted by less than this. */
const driftMs = 30_000;

/**
 * Tells when the computer has slept, from two clocks: `wallMs` goes on while it sleeps, `steadyMs` does not (on Windows it does, so
 * that a sleep goes unnoticed there). A clock that is set by hand looks like a sleep, which does no harm.
 */
export function wakeWatch(wallMs: () => number, steadyMs: () => number) {
  let apart = wallMs() - steadyMs();
  let wokeAtMs = -Infinity;
  return {
    /** Whether the computer has woken up since the last call, or within `seconds` before this call. */
    wokeWithin(seconds: number): boolean {
      const now = wallMs() - steadyMs();
      if (Math.abs(now - apart) > driftMs) wokeAtMs = steadyMs();
      apart = now;
      return steadyMs() - wokeAtMs < seconds * 1_000;
    },
  };
}
