type Names = ReadonlySet<string>;

/** Which list is read, and on whose behalf. */
interface Asked {
  readonly place: string;
  readonly owner: string;
  /** Whether another owner's reading of the list will do. */
  readonly mayWait: boolean;
}

/**
 * Lists that are being read because rules are about names, and which names there are was not known. One caller at a time reads a list of
 * a server. The others wait, and read it themselves only if that did not help: the caller may have had no account at the upstream,
 * or one that sees less.
 */
export class UnreadLists {
  readonly #ofPlaces = new Map<string, Promise<unknown>>();
  readonly #ofOwners = new Map<string, Promise<Names>>();

  /** The names that were read; `undefined` if another owner has read them. Rejects if they cannot be read. */
  async read(
    { place, owner, mayWait }: Asked,
    readAll: () => Promise<Names>,
  ): Promise<Names | undefined> {
    const own = this.#ofOwners.get(owner);
    if (own) return own;
    const known = mayWait ? this.#ofPlaces.get(place) : undefined;
    if (known) {
      await known.catch(() => undefined);
      return undefined;
    }
    const reading = readAll();
    this.#ofOwners.set(owner, reading);
    this.#ofPlaces.set(place, reading);
    try {
      return await reading;
    } finally {
      this.#ofOwners.delete(owner);
      if (this.#ofPlaces.get(place) === reading) this.#ofPlaces.delete(place);
    }
  }
}
