import { EventEmitter } from 'node:events';

type Stage = 'started' | 'cancelled' | 'finished';

/** Counts the stages of slow calls, so that a test can wait for a stage instead of sleeping. */
export class SlowCalls {
  readonly #counts: Record<Stage, number> = { started: 0, cancelled: 0, finished: 0 };
  readonly #changed = new EventEmitter();

  count(stage: Stage): number {
    return this.#counts[stage];
  }

  /** Resolves once `stage` was reached `count` times. */
  async until(stage: Stage, count = 1): Promise<void> {
    while (this.#counts[stage] < count)
      await new Promise((resolve) => this.#changed.once(stage, resolve));
  }

  /** A call that takes `ms`, unless `signal` cancels it. */
  async call(ms: number, signal: AbortSignal): Promise<void> {
    this.#reach('started');
    const cancelled = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve(true);
      });
    });
    this.#reach(cancelled ? 'cancelled' : 'finished');
  }

  #reach(stage: Stage): void {
    this.#counts[stage]++;
    this.#changed.emit(stage);
  }
}
