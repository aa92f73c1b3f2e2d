/**
 * A map that holds at most `max` entries: beyond that, it drops the entry that was set longest ago. Use it if clients choose the
 * keys, or if keys come and go. Setting an entry again makes it the newest.
 */
export class LimitedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    const oldest = this.keys().next();
    if (this.size > this.#max && !oldest.done) this.delete(oldest.value);
    return this;
  }
}
