/**
 * A map that holds at most `max` entries: beyond that, it forgets the one that was set longest ago. For keys that others choose or
 * that come and go. Setting an entry again makes it the latest.
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
