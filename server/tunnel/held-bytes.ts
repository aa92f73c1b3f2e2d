/** Bytes that are kept for callers: at most so many in all, and for one so many that others find room. */
export class HeldBytes {
  readonly #max: number;
  readonly #maxOfOne: number;
  readonly #of = new Map<string, number>();
  #all = 0;

  constructor(max: number) {
    this.#max = max;
    this.#maxOfOne = (max / 4) * 3;
  }

  get all(): number {
    return this.#all;
  }

  /** Lets go of them again, however often it is called; `undefined` when there is no room for them. */
  hold(caller: string, bytes: number): (() => void) | undefined {
    const before = this.#of.get(caller) ?? 0;
    if (this.#all + bytes > this.#max || before + bytes > this.#maxOfOne) return undefined;
    this.#count(caller, bytes);
    let isHeld = true;
    return () => {
      if (isHeld) this.#count(caller, -bytes);
      isHeld = false;
    };
  }

  #count(caller: string, bytes: number): void {
    this.#all += bytes;
    const left = (this.#of.get(caller) ?? 0) + bytes;
    if (left > 0) this.#of.set(caller, left);
    else this.#of.delete(caller);
  }
}
