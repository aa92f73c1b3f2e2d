// How many calls run at once in a tunnel, and the queue of those that wait.

/** How many calls a tunnel takes at once, besides streams that only listen. */
export const maxCalls = 128;
/** One caller may take three quarters of these slots, so that other callers always have the rest. */
const maxCallsPerCaller = 96;
const maxListening = 4096;

export class ActiveCalls {
  readonly #ofCaller = new Map<string, number>();
  #calls = 0;
  #listening = 0;

  get calls(): number {
    return this.#calls;
  }

  /** How many streams are open that only listen. */
  get listening(): number {
    return this.#listening;
  }

  /** Whether `caller` may start another call, or another stream that only listens. */
  hasRoom(caller: string, listens: boolean): boolean {
    if (listens) return this.#listening < maxListening;
    return this.#calls < maxCalls && (this.#ofCaller.get(caller) ?? 0) < maxCallsPerCaller;
  }

  /** Counts a call that starts or ends. */
  count(caller: string, listens: boolean, by: 1 | -1): void {
    if (listens) this.#listening += by;
    else {
      this.#calls += by;
      const left = (this.#ofCaller.get(caller) ?? 0) + by;
      if (left > 0) this.#ofCaller.set(caller, left);
      else this.#ofCaller.delete(caller);
    }
  }
}

const maxWaitingPerCaller = 64;
const maxWaiting = 1024;

export interface WaitingCall<Slot> {
  readonly caller: string;
  /** The slot that it could take now; `undefined` when there is none. */
  readonly find: () => Slot | undefined;
  readonly onFound: (slot: Slot) => void;
  readonly onTimeout: () => void;
  readonly untilMs: number;
}

/** A queue of calls that is fair to callers: one with a hundred calls gets no more turns than one with a single call. */
export class WaitingCalls<Slot> {
  // Callers in the order of their turns; the calls of each in the order of arrival.
  readonly #queues = new Map<string, Set<WaitingCall<Slot>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `false` when too many calls wait already, of this caller or in total. */
  add(call: WaitingCall<Slot>): boolean {
    const queue = this.#queues.get(call.caller) ?? new Set();
    if (queue.size >= maxWaitingPerCaller || this.#size >= maxWaiting) return false;
    queue.add(call);
    this.#queues.set(call.caller, queue);
    this.#size += 1;
    return true;
  }

  remove(call: WaitingCall<Slot>): void {
    const queue = this.#queues.get(call.caller);
    if (!queue?.delete(call)) return;
    this.#size -= 1;
    if (queue.size === 0) this.#queues.delete(call.caller);
  }

  /** Hands out free slots to one call of each caller in turn, while `isFree` returns true. */
  serve(isFree: () => boolean): void {
    let served = true;
    while (served && this.#size > 0) {
      served = false;
      // A copy: a caller who is served moves to the end of the queue.
      const turns = [...this.#queues];
      for (const [caller, queue] of turns) {
        if (!isFree()) return;
        for (const call of queue) {
          const slot = call.find();
          if (slot === undefined) continue;
          this.remove(call);
          this.#moveToEnd(caller);
          call.onFound(slot);
          served = true;
          break;
        }
      }
    }
  }

  /** Ends the wait of calls whose time is up. */
  expire(nowMs: number): void {
    if (this.#size === 0) return;
    for (const queue of this.#queues.values()) {
      for (const call of queue) {
        if (call.untilMs > nowMs) continue;
        this.remove(call);
        call.onTimeout();
      }
    }
  }

  #moveToEnd(caller: string): void {
    const queue = this.#queues.get(caller);
    if (!queue) return;
    this.#queues.delete(caller);
    this.#queues.set(caller, queue);
  }
}
