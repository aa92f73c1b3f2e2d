import type { AsyncEntry } from '@napi-rs/keyring';
import { chunkedSecretStore } from './chunked-secret-store.ts';
import { SecretStoreError, type SecretStore } from './secret-store.ts';

/** What this store uses of `@napi-rs/keyring`. */
export type KeyringLibrary = { readonly AsyncEntry: typeof AsyncEntry };

const service = 'latchkey';

/** 1,280 UTF-16 characters fit a Windows credential; some room stays for what other tools add. */
const windowsMaxChars = 1_200;

const probeNames = 1_024;
/**
 * So many operations may go unanswered before others fail at once. Each occupies one of the four threads that Node
 * has for files, names and cryptography, until the keychain answers.
 */
const mostStalled = 2;
/** Long enough for a person to type the password of a locked keyring. */
const defaultTimeoutMs = 20_000;

/**
 * The keychain of the operating system: macOS Keychain, Windows Credential Manager, the Secret
 * Service on Linux. There the store is pinned: left alone, the library silently takes the kernel's
 * keyring on machines without D-Bus, which no later process can read.
 */
export function osSecretStore({
  platform,
  timeoutMs = defaultTimeoutMs,
  load = async () => import('@napi-rs/keyring'),
}: {
  platform: NodeJS.Platform;
  timeoutMs?: number;
  /** Where the library comes from, if not from its package. */
  load?: (() => Promise<KeyringLibrary>) | undefined;
}): SecretStore {
  // Every new entry opens a D-Bus connection that only the garbage collector closes.
  const entries = new Map<string, AsyncEntry>();
  let library: Promise<KeyringLibrary> | undefined;
  /** Reads under way, by account: who asks for the same meanwhile gets the same answer. */
  const reads = new Map<string, Promise<string | null | undefined>>();
  const stalled = new Set<Promise<unknown>>();
  let seenWorking: Promise<void> | undefined;

  async function loaded(): Promise<KeyringLibrary> {
    library ??= load().catch((error: unknown) => {
      library = undefined;
      throw failure(error);
    });
    return library;
  }
  loaded().catch(() => undefined);

  async function call<T>(account: string, use: (entry: AsyncEntry) => Promise<T>): Promise<T> {
    const { AsyncEntry } = await loaded();
    if (stalled.size >= mostStalled)
      throw new SecretStoreError('timeout', 'it has yet to answer earlier requests');
    const known = entries.get(account);
    try {
      const entry =
        known ?? new AsyncEntry(service, account, { linux: { store: 'secret-service' } });
      entries.set(account, entry);
      const work = use(entry);
      return await within(timeoutMs, work, () => {
        stalled.add(work);
        const settled = () => void stalled.delete(work);
        work.then(settled, settled);
      });
    } catch (error) {
      // A keychain that was restarted no longer knows the session of any entry.
      entries.clear();
      const fault = error instanceof SecretStoreError ? error : failure(error);
      if (known && fault.code === 'unavailable') return call(account, use);
      throw fault;
    }
  }

  /** A keyring without a login collection reads as empty, so absence is believed only after this. */
  async function probe(): Promise<void> {
    // Many processes start at once, and one must not remove what another is writing. Whoever dies in between
    // leaves an entry without a secret; there are never more of them than names.
    const account = `probe ${Math.floor(Math.random() * probeNames)}`;
    await call(account, (entry) => entry.setPassword('probe'));
    await call(account, (entry) => entry.deletePassword()).catch(() => undefined);
    entries.delete(account);
  }

  const store: SecretStore = {
    async get(account) {
      const read = reads.get(account) ?? call(account, (entry) => entry.getPassword());
      reads.set(account, read);
      const secret = await read.finally(() => endRead(account, read));
      if (secret !== null) return secret;
      seenWorking ??= probe();
      await seenWorking.catch((error: unknown) => {
        seenWorking = undefined;
        // It answered the read.
        if (!(error instanceof SecretStoreError)) throw error;
        const { code, message, cause } = error;
        throw new SecretStoreError(code, message, { cause, isReachable: true });
      });
      return undefined;
    },
    set: async (account, secret) => written(account, (entry) => entry.setPassword(secret)),
    remove: async (account) => written(account, (entry) => entry.deletePassword()),
  };

  function endRead(account: string, read: Promise<unknown>): void {
    if (reads.get(account) === read) reads.delete(account);
  }

  /** Whoever reads afterwards gets what was written, not the answer to an earlier question. */
  async function written<T>(account: string, use: (entry: AsyncEntry) => Promise<T>): Promise<T> {
    return call(account, use).finally(() => reads.delete(account));
  }
  return platform === 'win32' ? chunkedSecretStore(store, windowsMaxChars) : store;
}

async function within<T>(timeoutMs: number, work: Promise<T>, onTimeout: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      onTimeout();
      reject(new SecretStoreError('timeout', `no answer within ${timeoutMs / 1000} s`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

function failure(error: unknown): SecretStoreError {
  const message = error instanceof Error ? error.message : String(error);
  const code = /locked|dismissed|cancell?ed|denied/i.test(message) ? 'locked' : 'unavailable';
  return new SecretStoreError(code, message, { cause: error });
}
