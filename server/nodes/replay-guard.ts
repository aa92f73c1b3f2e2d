/** What is older was held back, or comes from a node whose clock is wrong. */
const maxAgeMs = 10_000;
const forgetEveryMs = 1000;
const maxKept = 200_000;

/**
 * Tells the first arrival of a message from its repetitions, by a nonce and the time that are sealed in it. A nonce is kept as long
 * as its message would be young enough. Beyond 200,000, all that arrives is refused until some are forgotten.
 */
export class ReplayGuard {
  readonly #nowMs: () => number;
  /** When each nonce may be forgotten. */
  readonly #seen = new Map<string, number>();
  #forgotAtMs = -Infinity;

  /** `nowMs` is the wall clock, which all nodes share. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Whether a message is young and has not arrived before. */
  isFirst(nonce: string, sentMs: number): boolean {
    const nowMs = this.#nowMs();
    if (Math.abs(nowMs - sentMs) > maxAgeMs || this.#seen.has(nonce)) return false;
    this.#forgetOld(nowMs);
    if (this.#seen.size >= maxKept) return false;
    this.#seen.set(nonce, sentMs + maxAgeMs);
    return true;
  }

  #forgetOld(nowMs: number): void {
    if (Math.abs(nowMs - this.#forgotAtMs) < forgetEveryMs) return;
    this.#forgotAtMs = nowMs;
    for (const [nonce, until] of this.#seen) if (until < nowMs) this.#seen.delete(nonce);
  }
}
