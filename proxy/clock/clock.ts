/** Seconds since 1970-01-01 00:00 UTC. */
export type EpochSeconds = number;

/** What time it is, and waiting for it to pass. */
export interface Clock {
  now(): EpochSeconds;

  /** Resolves after `ms`, or at once when `signal` aborts; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The machine's own clock. */
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
