interface Holder<Value> {
  value: Value | undefined;
}

/**
 * A map for entries that live briefly, such as calls in progress.
 *
 * V8 gives a `Map` or `Set` a new table each time enough entries were deleted. The old table still refers to the entries that it
 * had then, and to the next table. As soon as one table is in old memory, all tables after it get there too, with every entry,
 * until the next full garbage collection, which costs calls much of their time under load. Here a table only refers to small
 * holders, each of which is emptied when its entry is deleted.
 */
export class BriefMap<Key, Value extends object> {
  readonly #holders = new Map<Key, Holder<Value>>();

  get size(): number {
    return this.#holders.size;
  }

  get(key: Key): Value | undefined {
    return this.#holders.get(key)?.value;
  }

  has(key: Key): boolean {
    return this.#holders.has(key);
  }

  set(key: Key, value: Value): void {
    const known = this.#holders.get(key);
    if (known) known.value = value;
    else this.#holders.set(key, { value });
  }

  delete(key: Key): boolean {
    const holder = this.#holders.get(key);
    if (!holder) return false;
    holder.value = undefined;
    return this.#holders.delete(key);
  }

  clear(): void {
    for (const key of this.#holders.keys()) this.delete(key);
  }

  /** The entries, in the order in which they were first set. */
  *[Symbol.iterator](): Generator<[Key, Value]> {
    for (const [key, { value }] of this.#holders) if (value) yield [key, value];
  }

  *values(): Generator<Value> {
    for (const [, value] of this) yield value;
  }
}
