/** Has things of one name done one behind the other. */
export class InTurn {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Does it once all that came before under this name is done, however that went. */
  async take<Result>(name: string, act: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const mine = before.then(act, act);
    this.#last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name);
    }
  }
}
