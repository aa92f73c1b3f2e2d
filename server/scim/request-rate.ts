import { LimitedMap } from '#model/limited-map';

const mostNames = 10_000;

/**
 * Limits the requests under a name to `perSecond` on average. After a pause, `burst` may follow each other without one. Counted in this
 * process alone: several nodes admit as many times more.
 */
export class RequestRate {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #milliseconds: () => number;
  readonly #left = new LimitedMap<string, { readonly left: number; readonly at: number }>(
    mostNames,
  );

  constructor(
    { perSecond, burst }: { perSecond: number; burst: number },
    milliseconds: () => number = () => performance.now(),
  ) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#milliseconds = milliseconds;
  }

  /** Counts a request. @returns how many seconds to wait before another attempt; 0 if the request is admitted */
  take(name: string): number {
    const at = this.#milliseconds();
    const known = this.#left.get(name);
    const regained = known ? ((at - known.at) / 1000) * this.#perSecond : this.#burst;
    const left = Math.min(this.#burst, (known?.left ?? 0) + regained);
    if (left < 1) return Math.max(1, Math.ceil((1 - left) / this.#perSecond));
    this.#left.set(name, { left: left - 1, at });
    return 0;
  }
}
