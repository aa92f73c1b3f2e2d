const maxOfOne = 64;
const maxInAll = 1024;

/** Somebody who waits for something to be free. */
export interface Waiter<Place> {
  readonly caller: string;
  /** What it could have now; `undefined` while that is nothing. */
  readonly find: () => Place | undefined;
  readonly found: (place: Place) => void;
  /** Told when its time is over. */
  readonly late: () => void;
  readonly untilMs: number;
}

/**
 * Those who wait, the callers in turn: one who brings a hundred requests is served no more often than one
 * who brings a single one.
 */
export class WaitingCallers<Place> {
  // Callers in the order of their turns; each one's requests in the order they came.
  readonly #queues = new Map<string, Set<Waiter<Place>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `false` when too many wait already, of this caller or in all. */
  add(waiter: Waiter<Place>): boolean {
    const queue = this.#queues.get(waiter.caller) ?? new Set();
    if (queue.size >= maxOfOne || this.#size >= maxInAll) return false;
    queue.add(waiter);
    this.#queues.set(waiter.caller, queue);
    this.#size += 1;
    return true;
  }

  remove(waiter: Waiter<Place>): void {
    const queue = this.#queues.get(waiter.caller);
    if (!queue?.delete(waiter)) return;
    this.#size -= 1;
    if (queue.size === 0) this.#queues.delete(waiter.caller);
  }

  /** Something is free: whoever can have it has it, the callers in turn, for as long as `isFree`. */
  serve(isFree: () => boolean): void {
    let served = true;
    while (served && this.#size > 0) {
      served = false;
      // As they stand now: whoever is served goes behind the others.
      const turns = [...this.#queues];
      for (const [caller, queue] of turns) {
        if (!isFree()) return;
        for (const waiter of queue) {
          const place = waiter.find();
          if (place === undefined) continue;
          this.remove(waiter);
          this.#putLast(caller);
          waiter.found(place);
          served = true;
          break;
        }
      }
    }
  }

  /** Sends away those whose time is over. */
  look(nowMs: number): void {
    if (this.#size === 0) return;
    for (const queue of this.#queues.values()) {
      for (const waiter of queue) {
        if (waiter.untilMs > nowMs) continue;
        this.remove(waiter);
        waiter.late();
      }
    }
  }

  #putLast(caller: string): void {
    const queue = this.#queues.get(caller);
    if (!queue) return;
    this.#queues.delete(caller);
    this.#queues.set(caller, queue);
  }
}
