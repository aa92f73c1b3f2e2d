import type { RefreshLock } from './refresh-lock.ts';

/**
 * A lock within this process, for a store that no other process shares. There is nothing to do: a
 * source of tokens renews once at a time by itself.
 */
export function processRefreshLock(): RefreshLock {
  return { hold: async (_, work) => work() };
}
