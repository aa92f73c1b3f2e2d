type Names = ReadonlySet<string>;

/** The list to read, and the owner on whose behalf it is read. */
interface Asked {
  readonly place: string;
  readonly owner: string;
  /** Whether to wait if another owner is reading the list, instead of reading it. */
  readonly mayWait: boolean;
}

/**
 * Lists that are being read because rules are about names, and it was not known which names exist. One caller at a time reads a list of
 * a server. The others wait, and read the list themselves only if that did not help: the first caller may have no account at the
 * upstream, or one that sees less.
 */
export class UnreadLists {
  readonly #ofPlaces = new Map<string, Promise<unknown>>();
  readonly #ofOwners = new Map<string, Promise<Names>>();

  /** The names that were read; `undefined` after waiting for another owner, whose reading may have failed. Rejects if they cannot be read. */
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
