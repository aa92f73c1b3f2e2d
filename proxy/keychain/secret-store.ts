/** Stores one secret for each account, readable only by this user on this computer. */
export interface SecretStore {
  /** The secret last set for `account`; `undefined` if there is none. */
  get(account: string): Promise<string | undefined>;

  /** Replaces the secret of `account`. Resolves when it is on disk. */
  set(account: string, secret: string): Promise<void>;

  /** Returns `false` if there was nothing to remove. */
  remove(account: string): Promise<boolean>;
}

/** The only error a SecretStore rejects with. `cause` is the platform's own. */
export class SecretStoreError extends Error {
  override readonly name = 'SecretStoreError';
  /** `key_file`: the key file of a file store is missing or unusable. `other_key`: the key does not open the stored secrets. */
  readonly code: 'unavailable' | 'key_file' | 'other_key' | 'locked' | 'timeout';

  /** Whether a store exists although it cannot be used, such as an `unavailable` keychain that has no collection yet. */
  readonly isReachable: boolean;

  /** The remedy, if it depends on this computer. */
  readonly remedy: string | undefined;

  constructor(
    code: SecretStoreError['code'],
    message: string,
    options?: ErrorOptions & { isReachable?: boolean; remedy?: string | undefined },
  ) {
    super(message, options);
    this.code = code;
    this.isReachable =
      options?.isReachable ?? (code === 'other_key' || code === 'locked' || code === 'timeout');
    this.remedy = options?.remedy;
  }
}

/** Secrets in memory only, for hosts that must not store any, and for tests. */
export function memorySecretStore(): SecretStore {
  const secrets = new Map<string, string>();
  return {
    get: (account) => Promise.resolve(secrets.get(account)),
    set: (account, secret) => {
      secrets.set(account, secret);
      return Promise.resolve();
    },
    remove: (account) => Promise.resolve(secrets.delete(account)),
  };
}

/** A store that is opened on first use, and again after a failure, because not every start needs the keychain. */
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
 * `store`, or memory if the first use finds no keychain: for tokens that can be fetched again at every start. `onFallback` is
 * called once, with the reason. A keychain that is locked, has no collection or is slow does count as a keychain.
 */
export function withMemoryFallback(
  store: SecretStore,
  onFallback: (error: SecretStoreError) => void,
): SecretStore {
  let chosen: SecretStore | undefined;

  async function use<T>(work: (from: SecretStore) => Promise<T>): Promise<T> {
    if (chosen) return work(chosen);
    try {
      const result = await work(store);
      chosen ??= store;
      return result;
    } catch (error) {
      if (!(error instanceof SecretStoreError) || error.isReachable) throw error;
      if (!chosen) {
        chosen = memorySecretStore();
        onFallback(error);
      }
      return work(chosen);
    }
  }

  return {
    get: async (account) => use(async (from) => from.get(account)),
    set: async (account, secret) => use(async (from) => from.set(account, secret)),
    remove: async (account) => use(async (from) => from.remove(account)),
  };
}

/**
 * Checks the store before a person signs in or types a secret. Removing an absent secret reads the key of a file store, and
 * reaches any keychain.
 *
 * @throws {SecretStoreError} when the store cannot be used
 */
export async function checkStore(store: SecretStore): Promise<void> {
  await store.remove('latchkey check');
}
