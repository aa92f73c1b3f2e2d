import { SecretStoreError, type SecretStore } from './secret-store.ts';

/** A store that is opened when it is first used, and again after that has failed: not every start needs the keychain. */
export function lazySecretStore(open: () => Promise<SecretStore>): SecretStore {
  let store: Promise<SecretStore> | undefined;
  const opened = async () =>
    (store ??= open().catch((error: unknown) => {
      store = undefined;
      throw error;
    }));
  return {
    get: async (account) => (await opened()).get(account),
    set: async (account, secret) => (await opened()).set(account, secret),
    remove: async (account) => (await opened()).remove(account),
  };
}

/**
 * `store`, or memory if its first use finds no keychain: for tokens that can be fetched again at every start.
 * `onFallback` is called once, with what was found instead. A keychain that is locked, empty of
 * collections or slow to answer is one.
 */
export function withMemoryFallback(
  store: SecretStore,
  onFallback: (error: SecretStoreError) => void,
): SecretStore {
  let chosen: Promise<SecretStore> | undefined;

  async function memoryInstead(error: SecretStoreError): Promise<SecretStore> {
    onFallback(error);
    const { memorySecretStore } = await import('./memory-secret-store.ts');
    return memorySecretStore();
  }

  async function use<T>(work: (from: SecretStore) => Promise<T>): Promise<T> {
    if (chosen) return work(await chosen);
    try {
      const result = await work(store);
      chosen ??= Promise.resolve(store);
      return result;
    } catch (error) {
      if (!(error instanceof SecretStoreError) || error.isReachable) throw error;
      chosen ??= memoryInstead(error);
      return work(await chosen);
    }
  }

  return {
    get: async (account) => use(async (from) => from.get(account)),
    set: async (account, secret) => use(async (from) => from.set(account, secret)),
    remove: async (account) => use(async (from) => from.remove(account)),
  };
}
