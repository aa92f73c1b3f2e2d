import type { EpochSeconds } from '#clock/clock';

const windowSeconds = 60;

/** How many seconds a caller must wait before it may send another request; 0 when it sent one now. */
type SecondsToWait = number;

/**
 * What one caller sent to one server in the last minute and has under way: sixty counts, one a second, so
 * that in no sixty seconds more are let through than allowed.
 */
export class CallerRate {
  readonly #counts = new Uint32Array(windowSeconds);
  #sum = 0;
  /** The second that was counted last. */
  #last: EpochSeconds;
  open = 0;

  constructor(now: EpochSeconds) {
    this.#last = Math.floor(now);
  }

  /** Whether nothing of it is left to remember. */
  isIdle(now: EpochSeconds): boolean {
    return this.open === 0 && Math.floor(now) - this.#last >= windowSeconds;
  }

  /** Counts a request, unless `most` were counted within the minute. */
  take(most: number, now: EpochSeconds): SecondsToWait {
    this.#forget(Math.floor(now));
    if (this.#sum >= most) return this.#wait(most);
    this.#counts[this.#last % windowSeconds] = this.#at(this.#last) + 1;
    this.#sum += 1;
    return 0;
  }

  /** Seconds whose minute is over. A clock that was set back counts on where it was. */
  #forget(second: number): void {
    const passed = Math.min(second - this.#last, windowSeconds);
    for (let behind = 1; behind <= passed; behind++) {
      const slot = (this.#last + behind) % windowSeconds;
      this.#sum -= this.#counts[slot] ?? 0;
      this.#counts[slot] = 0;
    }
    this.#last = Math.max(this.#last, second);
  }

  /** Until so many of the oldest are forgotten that there is room for one. */
  #wait(most: number): SecondsToWait {
    let left = this.#sum;
    for (let ahead = 1; ahead < windowSeconds; ahead++) {
      left -= this.#at(this.#last + ahead);
      if (left < most) return ahead;
    }
    return windowSeconds;
  }

  #at(second: number): number {
    return this.#counts[second % windowSeconds] ?? 0;
  }
}
