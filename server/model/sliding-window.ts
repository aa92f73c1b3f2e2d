import type { Clock, EpochSeconds } from './clock.ts';
import { LimitedMap } from './limited-map.ts';

/**
 * Limits how often something may happen under a name within any `seconds`. The counts are kept in memory; beyond
 * `maxNames` names, the one that was counted longest ago is forgotten.
 */
export class SlidingWindow {
  readonly #clock: Clock;
  readonly #seconds: number;
  readonly #times: LimitedMap<string, EpochSeconds[]>;

  constructor(
    clock: Clock,
    { seconds, maxNames }: { readonly seconds: number; readonly maxNames: number },
  ) {
    this.#clock = clock;
    this.#seconds = seconds;
    this.#times = new LimitedMap(maxNames);
  }

  /** The seconds until the window contains fewer than `most`; 0 if it does now, otherwise at least 1. */
  secondsUntilFree(name: string, most: number): number {
    const at = this.#recent(name).at(-most);
    return at === undefined ? 0 : Math.max(1, at + this.#seconds - this.#clock.now());
  }

  /** Counts one more. Only the latest `most` are remembered. */
  count(name: string, most: number): void {
    this.#times.set(name, [...this.#recent(name), this.#clock.now()].slice(-most));
  }

  #recent(name: string): EpochSeconds[] {
    const since = this.#clock.now() - this.#seconds;
    return (this.#times.get(name) ?? []).filter((at) => at > since);
  }
}
