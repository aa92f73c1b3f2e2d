/** Where something was last, for as many things as `max`; who was not asked for longest is forgotten. */
export class LastPlaces {
  readonly #places = new Map<string, string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get(thing: string): string | undefined {
    const place = this.#places.get(thing);
    if (place !== undefined) this.set(thing, place);
    return place;
  }

  set(thing: string, place: string): void {
    this.#places.delete(thing);
    this.#places.set(thing, place);
    if (this.#places.size <= this.#max) return;
    const [oldest] = this.#places.keys();
    if (oldest !== undefined) this.#places.delete(oldest);
  }

  forget(thing: string): void {
    this.#places.delete(thing);
  }
}
