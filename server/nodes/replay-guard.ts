/** The oldest message that is accepted. An older one was held back, or comes from a node whose clock is wrong. */
const maxAgeMs = 10_000;
const forgetEveryMs = 1000;
const maxKept = 200_000;

/**
 * Distinguishes the first arrival of a message from replays, by the nonce and the time sealed in it. A nonce is remembered for as
 * long as the message would be accepted. With 200,000 nonces in memory, every message is refused until some expire.
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

  /** Whether a message is recent and has not arrived before. */
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
