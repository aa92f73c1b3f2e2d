import type { SecretStore } from './secret-store.ts';

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
