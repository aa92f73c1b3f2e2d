import type { AsyncEntry } from '@napi-rs/keyring';
import { SecretStoreError, type SecretStore } from './secret-store.ts';

/** The part of `@napi-rs/keyring` that this store uses. */
export type KeyringLibrary = { readonly AsyncEntry: typeof AsyncEntry };

const service = 'latchkey';

/** A Windows credential holds 1,280 UTF-16 characters; other tools may add some. */
const windowsMaxChars = 1_200;

const probeNames = 1_024;
/**
 * How many operations may be unanswered before further ones fail immediately. Each occupies one of the four threads that Node
 * has for files, DNS and cryptography, until the keychain answers.
 */
const mostStalled = 2;
/** Long enough for a person to type the password of a locked keyring. */
const defaultTimeoutMs = 20_000;

type OsSecretStoreOptions = {
  timeoutMs?: number;
  /** Loads the library, if it does not come from its package. */
  load?: (() => Promise<KeyringLibrary>) | undefined;
  /** The remedy if there is no keychain; `undefined` for the usual advice. */
  remedy?: (() => string | undefined) | undefined;
};

/**
 * The keychain of the operating system: macOS Keychain, Windows Credential Manager, the Secret
 * Service on Linux. On Linux, the store is set explicitly: without D-Bus, the library would silently use the kernel's
 * keyring, which no later process can read.
 */
export function osSecretStore({
  platform,
  ...options
}: OsSecretStoreOptions & { platform: NodeJS.Platform }): SecretStore {
  const store = new OsSecretStore(options);
  return platform === 'win32' ? chunkedSecretStore(store, windowsMaxChars) : store;
}

class OsSecretStore implements SecretStore {
  readonly #timeoutMs: number;
  readonly #load: () => Promise<KeyringLibrary>;
  readonly #remedy: () => string | undefined;
  #library: Promise<KeyringLibrary> | undefined;
  // Every new entry opens a D-Bus connection that only the garbage collector closes.
  readonly #entries = new Map<string, AsyncEntry>();
  /** Reads in progress by account. Concurrent reads of an account share one. */
  readonly #reads = new Map<string, Promise<string | null | undefined>>();
  /** Operations that exceeded the timeout, until the keychain answers them. */
  readonly #stalled = new Set<Promise<unknown>>();
  #probed: Promise<void> | undefined;

  constructor({
    timeoutMs = defaultTimeoutMs,
    load,
    remedy = () => undefined,
  }: OsSecretStoreOptions) {
    this.#remedy = remedy;
    this.#timeoutMs = timeoutMs;
    this.#load = load ?? (async () => import('@napi-rs/keyring'));
    this.#loaded().catch(() => undefined);
  }

  async get(account: string): Promise<string | undefined> {
    const read = this.#reads.get(account) ?? this.#call(account, (entry) => entry.getPassword());
    this.#reads.set(account, read);
    const secret = await read.finally(() => {
      if (this.#reads.get(account) === read) this.#reads.delete(account);
    });
    if (secret !== null) return secret;
    this.#probed ??= this.#probe();
    await this.#probed.catch((error: unknown) => {
      this.#probed = undefined;
      // The keychain answered the read, so it is reachable.
      if (!(error instanceof SecretStoreError)) throw error;
      const { code, message, cause, remedy } = error;
      throw new SecretStoreError(code, message, { cause, remedy, isReachable: true });
    });
    return undefined;
  }

  async set(account: string, secret: string): Promise<void> {
    return this.#write(account, (entry) => entry.setPassword(secret));
  }

  async remove(account: string): Promise<boolean> {
    return this.#write(account, (entry) => entry.deletePassword());
  }

  async #loaded(): Promise<KeyringLibrary> {
    this.#library ??= this.#load().catch((error: unknown) => {
      this.#library = undefined;
      throw failure(error, this.#remedy);
    });
    return this.#library;
  }

  async #call<T>(
    account: string,
    use: (entry: AsyncEntry) => Promise<T>,
    { isRepeated = false } = {},
  ): Promise<T> {
    const { AsyncEntry } = await this.#loaded();
    if (this.#stalled.size >= mostStalled)
      throw new SecretStoreError('timeout', 'it did not respond to earlier requests');
    try {
      const entry =
        this.#entries.get(account) ??
        new AsyncEntry(service, account, { linux: { store: 'secret-service' } });
      this.#entries.set(account, entry);
      const work = use(entry);
      return await within(this.#timeoutMs, work, () => {
        this.#stalled.add(work);
        const settled = () => void this.#stalled.delete(work);
        work.then(settled, settled);
      });
    } catch (error) {
      // A keychain that was restarted no longer knows the session of any entry, and may have lost its collection.
      this.#entries.clear();
      this.#probed = undefined;
      const fault = error instanceof SecretStoreError ? error : failure(error, this.#remedy);
      // gnome-keyring crashes now and then when programs connect to it and disconnect at the same moment. The message bus starts it
      // again for the next request.
      if (fault.code === 'unavailable' && !isRepeated)
        return this.#call(account, use, { isRepeated: true });
      throw fault;
    }
  }

  /** Writes or removes a secret. Later reads do not share a read that began before. */
  async #write<T>(account: string, use: (entry: AsyncEntry) => Promise<T>): Promise<T> {
    return this.#call(account, use).finally(() => this.#reads.delete(account));
  }

  /** Writes and removes a secret: a keyring without a login collection seems to be empty, so an absent secret proves nothing. */
  async #probe(): Promise<void> {
    // Many processes may start at the same time, and must not remove each other's entries. A process that crashes here leaves
    // an entry without a secret; the number of names limits how many there can be.
    const account = `probe ${Math.floor(Math.random() * probeNames)}`;
    await this.#call(account, (entry) => entry.setPassword('probe'));
    await this.#call(account, (entry) => entry.deletePassword()).catch(() => undefined);
    this.#entries.delete(account);
  }
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

function failure(error: unknown, remedy: () => string | undefined): SecretStoreError {
  const message = error instanceof Error ? error.message : String(error);
  // The library waits 2 s for a connection. A keychain that hangs is not absent: no other store may replace it.
  if (message.includes('Did not receive a reply'))
    return new SecretStoreError('timeout', 'no answer within 2 s', { cause: error });
  if (/locked|dismissed|cancell?ed|denied/i.test(message))
    return new SecretStoreError('locked', message, { cause: error });
  // On Linux, the library's message names how it tried to reach the Secret Service: with D-Bus, and with X11 to start it.
  const why = /D-?Bus|org\.freedesktop/i.test(message)
    ? 'no keychain is running'
    : `no keychain is available: ${message}`;
  return new SecretStoreError('unavailable', why, { cause: error, remedy: remedy() });
}

/** How often other processes may replace a secret while it is read. */
const mostReplacements = 5;

const head = /^latchkey-chunks:([0-9a-f]{16}):(\d+)$/;

/**
 * A store for long secrets on top of one whose values have at most `maxChars` characters, such as the Windows Credential Manager
 * (2,560 bytes of UTF-16). Each part has its own account, with a random mark. The head is written last, and a reader that
 * misses a part reads the head again, so that it sees either the old or the new secret.
 */
export function chunkedSecretStore(store: SecretStore, maxChars: number): SecretStore {
  const partAccount = (account: string, mark: string, index: number) =>
    `${account} part ${mark} ${index}`;

  async function removeParts(account: string, value: string | undefined): Promise<void> {
    const [, mark = '', count = '0'] = head.exec(value ?? '') ?? [];
    for (let index = 0; index < Number(count); index += 1)
      await store.remove(partAccount(account, mark, index));
  }

  /** `undefined` if there is no secret, or a part of it is missing. */
  async function joined(account: string, value: string | undefined): Promise<string | undefined> {
    const [, mark, count] = head.exec(value ?? '') ?? [];
    if (mark === undefined) return value;
    const parts: string[] = [];
    for (let index = 0; index < Number(count); index += 1) {
      const part = await store.get(partAccount(account, mark, index));
      if (part === undefined) return undefined;
      parts.push(part);
    }
    return parts.join('');
  }

  return {
    async get(account) {
      let value = await store.get(account);
      for (let replacements = 0; replacements < mostReplacements; replacements += 1) {
        const whole = await joined(account, value);
        if (whole !== undefined) return whole;
        const now = await store.get(account);
        if (now === value) return undefined;
        value = now;
      }
      throw new SecretStoreError('timeout', 'the secret was replaced each time it was read');
    },

    async set(account, secret) {
      const before = await store.get(account);
      if (secret.length <= maxChars) await store.set(account, secret);
      else {
        const { randomBytes } = await import('node:crypto');
        const mark = randomBytes(8).toString('hex');
        const count = Math.ceil(secret.length / maxChars);
        for (let index = 0; index < count; index += 1) {
          const part = secret.slice(index * maxChars, (index + 1) * maxChars);
          await store.set(partAccount(account, mark, index), part);
        }
        await store.set(account, `latchkey-chunks:${mark}:${count}`);
      }
      await removeParts(account, before);
    },

    async remove(account) {
      const before = await store.get(account);
      const removed = await store.remove(account);
      await removeParts(account, before);
      return removed;
    },
  };
}
