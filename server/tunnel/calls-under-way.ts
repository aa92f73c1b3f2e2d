/** How many calls a tunnel takes at once, streams that only listen aside. */
export const maxCalls = 128;
/** No caller takes the last quarter of what others need too. */
const maxCallsOfOne = 96;
const maxListening = 4096;

/** What is under way in one tunnel, for whom, and whether there is room for more. */
export class CallsUnderWay {
  readonly #ofCaller = new Map<string, number>();
  #calls = 0;
  #listening = 0;

  get calls(): number {
    return this.#calls;
  }

  /** How many streams are under way that only listen. */
  get listening(): number {
    return this.#listening;
  }

  /** Whether one more of this kind fits for this caller. */
  hasRoom(caller: string, listens: boolean): boolean {
    if (listens) return this.#listening < maxListening;
    return this.#calls < maxCalls && (this.#ofCaller.get(caller) ?? 0) < maxCallsOfOne;
  }

  /** One more is under way, or one less. */
  count(caller: string, listens: boolean, by: 1 | -1): void {
    if (listens) this.#listening += by;
    else {
      this.#calls += by;
      const left = (this.#ofCaller.get(caller) ?? 0) + by;
      if (left > 0) this.#ofCaller.set(caller, left);
      else this.#ofCaller.delete(caller);
    }
  }
}
