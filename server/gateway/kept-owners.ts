import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Clock, EpochSeconds } from '#clock/clock';
import type { Standing } from './standing.ts';

const lookEveryMs = 500;
/** A key expires without anything being written. */
const lookAnywaySeconds = 60;
/** Longer than any request takes that may leave something behind. */
const forgottenSeconds = 900;
const lookedAtOnce = 100;

export interface KeptOwnersPorts {
  readonly clock: Clock;
  /** Another text than before, once anything was written. */
  readonly written: () => string;
  /** Nothing lets an owner in any more; told once. */
  readonly left: (owner: string) => void;
  /** Whether anything is kept for an owner now. */
  readonly keeps: (owner: string) => boolean;
  /** Ends all that is kept for an owner. */
  readonly end: (owner: string) => void;
}

interface Owner {
  /** By their names. */
  readonly standings: Map<string, Standing>;
  seenAt: EpochSeconds;
}

/**
 * Those for whom something is kept between their requests, with what lets them come back. Twice a second, when
 * anything was written, all of that is looked up again: what is kept for an owner whom nothing lets in any more ends,
 * whoever revoked it and wherever. A token that expired ends nothing, as the same client comes back with another.
 */
export class KeptOwners {
  readonly #ports: KeptOwnersPorts;
  readonly #owners = new Map<string, Owner>();
  /** Whom nothing lets in; what a request of theirs that was under way still leaves behind ends too. */
  readonly #gone = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #written: string | undefined;
  #lookedAt: EpochSeconds;
  #isLooking = false;

  constructor(ports: KeptOwnersPorts) {
    this.#ports = ports;
    this.#lookedAt = ports.clock.now();
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref();
  }

  /** Owners that are remembered. */
  get size(): number {
    return this.#owners.size;
  }

  /** An owner was let in just now. */
  note(owner: string, standing: Standing): void {
    const seenAt = this.#ports.clock.now();
    let known = this.#owners.get(owner);
    if (!known) {
      known = { standings: new Map(), seenAt };
      this.#owners.set(owner, known);
    }
    known.seenAt = seenAt;
    // It may have been revoked since it was looked up.
    if (!known.standings.has(standing.name)) this.#written = undefined;
    known.standings.set(standing.name, standing);
    if (this.#gone.size > 0) this.#gone.delete(owner);
  }

  /** Looks after all of them once; called by itself. A store that cannot be asked ends nothing yet. */
  async look(): Promise<void> {
    if (this.#isLooking || this.#owners.size === 0) return;
    this.#isLooking = true;
    try {
      const { clock, written } = this.#ports;
      const now = clock.now();
      const isTime = now - this.#lookedAt >= lookAnywaySeconds;
      const asOf = written();
      if (isTime || asOf !== this.#written) {
        this.#written = asOf;
        await this.#lookUp();
      }
      for (const owner of this.#gone) if (this.#ports.keeps(owner)) this.#ports.end(owner);
      if (isTime) this.#forgetOld(now);
    } catch {
      this.#written = undefined;
    } finally {
      this.#isLooking = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** In parts, as calls go on between them. */
  async #lookUp(): Promise<void> {
    const owners = [...this.#owners];
    for (let from = 0; from < owners.length; from += lookedAtOnce) {
      const part = owners.slice(from, from + lookedAtOnce);
      await Promise.all(part.map(([owner, known]) => this.#lookUpOne(owner, known)));
      await nextTurn();
    }
  }

  async #lookUpOne(owner: string, { standings }: Owner): Promise<void> {
    const looks = [...standings].map(async ([name, standing]) => {
      const isGone = !(await standing.stands());
      if (isGone && standings.get(name) === standing) standings.delete(name);
    });
    await Promise.all(looks);
    if (standings.size > 0 || this.#gone.has(owner)) return;
    this.#gone.add(owner);
    this.#ports.left(owner);
  }

  #forgetOld(now: EpochSeconds): void {
    this.#lookedAt = now;
    for (const [owner, { seenAt }] of this.#owners) {
      if (seenAt + forgottenSeconds >= now || this.#ports.keeps(owner)) continue;
      this.#owners.delete(owner);
      this.#gone.delete(owner);
    }
  }
}
