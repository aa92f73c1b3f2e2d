import { LimitedMap } from '#model/limited-map';

const mostNames = 10_000;
const tellEveryMs = 200;
/** The most names in one message between nodes. */
const mostTold = 500;

/** The rate limit for one directory. Microsoft Entra sends 25 or more requests a second. */
export const scimRequestsOfDirectory = { perSecond: 100, burst: 1000 };

/** How many requests were counted under a name. */
export type CountedRequests = [name: string, count: number];

/**
 * Limits the requests under a name to `perSecond` on average. After a pause, `burst` requests may arrive in a row. Several nodes tell each
 * other their counts five times a second, so between two messages, n nodes together admit up to n times as many requests.
 */
export class RequestRate {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #milliseconds: () => number;
  readonly #tell: ((counts: CountedRequests[]) => void) | undefined;
  readonly #left = new LimitedMap<string, { readonly left: number; readonly at: number }>(
    mostNames,
  );
  /** The requests counted since this node last told the other nodes. */
  readonly #untold = new Map<string, number>();

  /** `tell` tells the other nodes, if there are any. */
  constructor(
    { perSecond, burst }: { perSecond: number; burst: number },
    {
      milliseconds = () => performance.now(),
      tell,
    }: { milliseconds?: () => number; tell?: (counts: CountedRequests[]) => void } = {},
  ) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#milliseconds = milliseconds;
    this.#tell = tell;
  }

  /** Counts a request. @returns how many seconds to wait before another attempt; 0 if the request is admitted */
  take(name: string): number {
    const { left, at } = this.#leftOf(name);
    if (left < 1) return Math.max(1, Math.ceil((1 - left) / this.#perSecond));
    this.#left.set(name, { left: left - 1, at });
    if (this.#tell) this.#note(name, this.#tell);
    return 0;
  }

  /** Counts requests that another node has admitted. */
  heard(counts: readonly CountedRequests[]): void {
    for (const [name, count] of counts) {
      const { left, at } = this.#leftOf(name);
      // The number never drops below zero: a node that reports too much must not block the other nodes for long.
      this.#left.set(name, { left: Math.max(0, left - Math.max(0, count)), at });
    }
  }

  #leftOf(name: string): { left: number; at: number } {
    const at = this.#milliseconds();
    const known = this.#left.get(name);
    const regained = known ? ((at - known.at) / 1000) * this.#perSecond : this.#burst;
    return { left: Math.min(this.#burst, (known?.left ?? 0) + regained), at };
  }

  #note(name: string, tell: (counts: CountedRequests[]) => void): void {
    const isTelling = this.#untold.size > 0;
    this.#untold.set(name, (this.#untold.get(name) ?? 0) + 1);
    if (isTelling) return;
    setTimeout(() => {
      const counts = [...this.#untold];
      this.#untold.clear();
      for (let at = 0; at < counts.length; at += mostTold) tell(counts.slice(at, at + mostTold));
    }, tellEveryMs).unref();
  }
}
