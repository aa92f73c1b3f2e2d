/**
 * Lets one process at a time renew the token of an account. It dies with its process. Whoever gets
 * it re-reads the store first, as the one before has probably done the work.
 */
export interface RefreshLock {
  /** @throws {TokenError} `busy`, `no_lock`, or what `work` rejects with */
  hold<T>(account: string, work: () => Promise<T>): Promise<T>;
}
