import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Clock, EpochSeconds } from '#model/clock';
import type { Access } from './admission.ts';

const lookEveryMs = 500;
/** Owners are checked at least this often, because a key expires without a change in the database. */
const lookAnywaySeconds = 60;
/** How long an owner without state is remembered: longer than any request that may leave state behind can take. */
const forgottenSeconds = 900;
const lookedAtOnce = 100;

export interface ReaperPorts {
  readonly clock: Clock;
  /** A change token of the database. */
  readonly changeToken: () => string;
  /** Called once for an owner who lost access. */
  readonly left: (owner: string) => void;
  /** Whether an owner has any state now. */
  readonly keeps: (owner: string) => boolean;
  /** Ends all state of an owner. */
  readonly end: (owner: string) => void;
}

interface Owner {
  /** By name. */
  readonly accesses: Map<string, Access>;
  seenAt: EpochSeconds;
}

/**
 * Ends the state of owners who lost access: sessions, links and waiting calls. Owners are checked twice a second if
 * the database changed, so that a revocation by any process takes effect. An expired token ends nothing, because the
 * same client returns with another.
 */
export class Reaper {
  readonly #ports: ReaperPorts;
  readonly #owners = new Map<string, Owner>();
  /** Owners without access. State that a request in progress still leaves behind is ended too. */
  readonly #gone = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #changeToken: string | undefined;
  #lookedAt: EpochSeconds;
  #isLooking = false;

  constructor(ports: ReaperPorts) {
    this.#ports = ports;
    this.#lookedAt = ports.clock.now();
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref();
  }

  /** The number of remembered owners. */
  get size(): number {
    return this.#owners.size;
  }

  /** Records that an owner was admitted. */
  note(owner: string, access: Access): void {
    const seenAt = this.#ports.clock.now();
    let known = this.#owners.get(owner);
    if (!known) {
      known = { accesses: new Map(), seenAt };
      this.#owners.set(owner, known);
    }
    known.seenAt = seenAt;
    // The access may have been revoked since the request was admitted.
    if (!known.accesses.has(access.name)) this.#changeToken = undefined;
    known.accesses.set(access.name, access);
    if (this.#gone.size > 0) this.#gone.delete(owner);
  }

  /** Checks all owners once. Runs on a timer. A database error ends nothing yet. */
  async look(): Promise<void> {
    if (this.#isLooking || this.#owners.size === 0) return;
    this.#isLooking = true;
    try {
      const { clock, changeToken } = this.#ports;
      const now = clock.now();
      const isTime = now - this.#lookedAt >= lookAnywaySeconds;
      const asOf = changeToken();
      if (isTime || asOf !== this.#changeToken) {
        this.#changeToken = asOf;
        await this.#lookUp();
      }
      for (const owner of this.#gone) if (this.#ports.keeps(owner)) this.#ports.end(owner);
      if (isTime) this.#forgetOld(now);
    } catch {
      this.#changeToken = undefined;
    } finally {
      this.#isLooking = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Checks all owners, in batches, so that calls can proceed in between. */
  async #lookUp(): Promise<void> {
    const owners = [...this.#owners];
    for (let from = 0; from < owners.length; from += lookedAtOnce) {
      const part = owners.slice(from, from + lookedAtOnce);
      await Promise.all(part.map(([owner, known]) => this.#lookUpOne(owner, known)));
      await nextTurn();
    }
  }

  async #lookUpOne(owner: string, { accesses }: Owner): Promise<void> {
    const looks = [...accesses].map(async ([name, access]) => {
      const isGone = !(await access.isActive());
      if (isGone && accesses.get(name) === access) accesses.delete(name);
    });
    await Promise.all(looks);
    if (accesses.size > 0 || this.#gone.has(owner)) return;
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
