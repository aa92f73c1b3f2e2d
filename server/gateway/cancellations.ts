/**
 * Requests without a session that a later `notifications/cancelled` may end: an upstream that keeps no
 * session never hears that notification, so its own request is what has to end.
 */
export class Cancellations {
  readonly #requests = new Map<string, AbortController>();

  /** Notes a request; the function that comes back says that it is over. */
  expect(owner: string, id: string | undefined, controller: AbortController): () => void {
    if (id === undefined) return () => undefined;
    const key = `${owner} ${id}`;
    this.#requests.set(key, controller);
    return () => {
      if (this.#requests.get(key) === controller) this.#requests.delete(key);
    };
  }

  /** Ends that owner's request of this id (JSON text), if it is under way. */
  cancel(owner: string, id: string | undefined): void {
    if (id !== undefined) this.#requests.get(`${owner} ${id}`)?.abort();
  }
}
