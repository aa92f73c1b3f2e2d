/** What is held of one request, and can be given up. */
interface Held {
  readonly bytes: number;
  readonly letGo: () => void;
  readonly giveUp: () => void;
}

/**
 * Bytes that are kept for callers: at most so many in all, and for one so many that others find room. Where there is
 * none left, what came last for the caller who has most is given up for one who has less.
 */
export class HeldBytes {
  readonly #max: number;
  readonly #maxOfOne: number;
  readonly #of = new Map<string, number>();
  /** What can be given up, the newest last. */
  readonly #loose = new Map<string, Set<Held>>();
  #all = 0;

  constructor(max: number) {
    this.#max = max;
    this.#maxOfOne = (max / 4) * 3;
  }

  get all(): number {
    return this.#all;
  }

  /**
   * Lets go of them again, however often it is called; `undefined` when there is no room for them. `giveUp` is called
   * when they have been let go of for somebody else.
   */
  hold(caller: string, bytes: number, giveUp?: () => void): (() => void) | undefined {
    const after = (this.#of.get(caller) ?? 0) + bytes;
    if (after > this.#maxOfOne) return undefined;
    while (this.#all + bytes > this.#max) if (!this.#makeRoom(after)) return undefined;
    this.#count(caller, bytes);
    let isHeld = true;
    const letGo = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#count(caller, -bytes);
      if (held) this.#looseOf(caller).delete(held);
      if (held && this.#looseOf(caller).size === 0) this.#loose.delete(caller);
    };
    const held = giveUp && { bytes, letGo, giveUp };
    if (held) this.#loose.set(caller, this.#looseOf(caller).add(held));
    return letGo;
  }

  /** `false` when nobody would be left with as much as one who then has `after` bytes. */
  #makeRoom(after: number): boolean {
    let most: { held: Held; left: number } | undefined;
    for (const [caller, loose] of this.#loose) {
      const held = [...loose].at(-1);
      const left = (this.#of.get(caller) ?? 0) - (held?.bytes ?? 0);
      if (held && left >= after && left > (most?.left ?? -1)) most = { held, left };
    }
    most?.held.letGo();
    most?.held.giveUp();
    return most !== undefined;
  }

  #looseOf(caller: string): Set<Held> {
    return this.#loose.get(caller) ?? new Set();
  }

  #count(caller: string, bytes: number): void {
    this.#all += bytes;
    const left = (this.#of.get(caller) ?? 0) + bytes;
    if (left > 0) this.#of.set(caller, left);
    else this.#of.delete(caller);
  }
}
