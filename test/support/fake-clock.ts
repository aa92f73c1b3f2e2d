import { setImmediate } from 'node:timers/promises';
import type { Clock } from '#proxy/clock/clock';

export type FakeClock = Clock & {
  /** Lets that much time pass, and wakes in order everything whose wait ends within it. */
  advance(seconds: number): Promise<void>;
  /** Resolves once something waits for time to pass. */
  asleep(): Promise<void>;
  /** Lets everything happen that needs no time. */
  settled(): Promise<void>;
};

/** Time that passes only when a test says so. */
export function fakeClock(now = 1_800_000_000): FakeClock {
  let ms = now * 1000;
  const sleeping = new Set<{ untilMs: number; wake: () => void }>();
  const settled = async () => {
    for (let turn = 0; turn < 20; turn += 1) await setImmediate();
  };
  return {
    now: () => Math.floor(ms / 1000),
    sleep: (forMs, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const sleeper = { untilMs: ms + forMs, wake: resolve };
        sleeping.add(sleeper);
        signal?.addEventListener('abort', () => {
          sleeping.delete(sleeper);
          resolve();
        });
      }),
    async asleep() {
      while (sleeping.size === 0) await setImmediate();
    },
    settled,
    async advance(seconds) {
      await settled();
      const endMs = ms + seconds * 1000;
      for (;;) {
        const next = [...sleeping]
          .filter(({ untilMs }) => untilMs <= endMs)
          .toSorted((one, other) => one.untilMs - other.untilMs)[0];
        if (!next) break;
        ms = Math.max(ms, next.untilMs);
        sleeping.delete(next);
        next.wake();
        await settled();
      }
      ms = endMs;
      await settled();
    },
  };
}
