import { expect, test } from 'vitest';
import {
  lazySecretStore,
  memorySecretStore,
  type SecretStore,
  SecretStoreError,
  withMemoryFallback,
} from '#proxy/keychain/secret-store';
import { chunkedSecretStore, osSecretStore } from '#proxy/keychain/os-secret-store';
import { memoryEntries } from '#support/crashes/memory-keychain';
import { patient } from '#support/patient';

/** A keychain that answers a read when a test settles the promise of the read in `reads`. */
function slowKeychain() {
  const reads: PromiseWithResolvers<string | null>[] = [];
  const AsyncEntry = class extends memoryEntries({ kept: new Map(), isGone: false }) {
    override async getPassword(): Promise<string | null> {
      const answer = Promise.withResolvers<string | null>();
      reads.push(answer);
      return answer.promise;
    }
  };
  return { reads, load: async () => ({ AsyncEntry }) };
}

test('secret store: a keychain that failed to open is opened again at the next use', async () => {
  let opened = 0;
  const store = lazySecretStore(() => {
    opened += 1;
    return opened === 1 ? Promise.reject(new Error('away')) : Promise.resolve(memorySecretStore());
  });

  await expect(store.get('one')).rejects.toThrow('away');
  expect(await store.get('one')).toBe(undefined);
});

test('keychain: a library that failed to load is loaded again at the next use', async () => {
  const { reads, load } = slowKeychain();
  let loads = 0;
  const store = osSecretStore({
    platform: 'linux',
    async load() {
      loads += 1;
      if (loads === 1) throw new Error('no such file');
      return load();
    },
  });

  await expect(store.get('one')).rejects.toMatchObject({ code: 'unavailable' });
  const again = store.get('one');
  await expect.poll(() => reads.length, patient).toBe(1);
  reads[0]?.resolve('a secret');
  expect(await again).toBe('a secret');
});

test('keychain: reads of an account at the same time share one operation', async () => {
  const { reads, load } = slowKeychain();
  const store = osSecretStore({ platform: 'linux', load });
  const both = Promise.all([store.get('one'), store.get('one')]);
  await expect.poll(() => reads.length, patient).toBe(1);
  reads[0]?.resolve('a secret');

  expect(await both).toEqual(['a secret', 'a secret']);
  expect(reads).toHaveLength(1);
});

test('keychain: a read after a write does not share an operation with a read before it', async () => {
  const { reads, load } = slowKeychain();
  const store = osSecretStore({ platform: 'linux', load });
  const before = store.get('one');
  await expect.poll(() => reads.length, patient).toBe(1);
  await store.set('one', 'new');
  const after = store.get('one');
  await expect.poll(() => reads.length, patient).toBe(2);
  reads[1]?.resolve('new');
  reads[0]?.resolve('old');

  expect(await after).toBe('new');
  expect(await before).toBe('old');
});

test('keychain: while two operations are unanswered, others fail immediately', async () => {
  const { reads, load } = slowKeychain();
  const store = osSecretStore({ platform: 'linux', timeoutMs: 250, load });
  for (const account of ['one', 'two', 'three', 'four'])
    await expect(store.get(account)).rejects.toMatchObject({ code: 'timeout' });
  expect(reads).toHaveLength(2);

  for (const read of reads) read.resolve('late');
  const answered = store.get('three');
  await expect.poll(() => reads.length, patient).toBe(3);
  reads[2]?.resolve('a secret');
  expect(await answered).toBe('a secret');
});

test('memory fallback: a keychain that fails after its first use is not replaced', async () => {
  const keychain = memorySecretStore();
  const unavailable = new SecretStoreError('unavailable', 'gone');
  let isGone = false;
  const fellBack: string[] = [];
  const store = withMemoryFallback(
    {
      ...keychain,
      get: (account) => (isGone ? Promise.reject(unavailable) : keychain.get(account)),
    },
    ({ message }) => fellBack.push(message),
  );
  await store.set('one', 'a secret');
  isGone = true;

  await expect(store.get('one')).rejects.toBe(unavailable);
  expect(fellBack).toEqual([]);
});

test.each([
  ['locked', new SecretStoreError('locked', 'locked')],
  ['slow to answer', new SecretStoreError('timeout', 'no answer')],
  ['without a collection', new SecretStoreError('unavailable', 'none', { isReachable: true })],
])('memory fallback: a keychain that is %s is not replaced', async (_, error) => {
  const fails = async () => Promise.reject(error);
  const store = withMemoryFallback({ get: fails, set: fails, remove: fails }, () => {
    throw new Error('replaced');
  });

  await expect(store.get('one')).rejects.toBe(error);
});

test('keychain: after a restart, it is used again with a new session', async () => {
  let session = 1;
  const AsyncEntry = class extends memoryEntries({ kept: new Map(), isGone: false }) {
    readonly #session = session;

    override async getPassword() {
      this.#check();
      return super.getPassword();
    }

    override async setPassword(secret: string) {
      this.#check();
      return super.setPassword(secret);
    }

    #check(): void {
      if (this.#session !== session) throw new Error('The session does not exist');
    }
  };
  const load = async () => ({ AsyncEntry });
  const store = osSecretStore({ platform: 'linux', load });
  await store.set('one', 'a');
  await store.set('two', 'b');

  session += 1;

  expect(await store.get('one')).toBe('a');
  await store.set('two', 'c');
  expect(await store.get('two')).toBe('c');
});

/** A writer and a reader of long secrets; the first read of the reader calls `meanwhile`, which acts as another process would. */
function chunkedBesideWriter(meanwhile: (writer: SecretStore) => Promise<void>) {
  const inner = memorySecretStore();
  const writer = chunkedSecretStore(inner, 4);
  let isDone = false;
  const reader = chunkedSecretStore(
    {
      ...inner,
      async get(account) {
        const value = await inner.get(account);
        if (!isDone) {
          isDone = true;
          await meanwhile(writer);
        }
        return value;
      },
    },
    4,
  );
  return { writer, reader };
}

test.each([
  ['a longer one', 'the new long secret'],
  ['a short one', 'new'],
])(
  'long secret: if it is replaced by %s during a read, the read returns the new one',
  async (_, after) => {
    const { writer, reader } = chunkedBesideWriter(async (other) => other.set('token', after));
    await writer.set('token', 'the old secret');

    expect(await reader.get('token')).toBe(after);
  },
);

test('long secret: if it is removed during a read, the read returns none', async () => {
  const { writer, reader } = chunkedBesideWriter(
    async (other) => void (await other.remove('token')),
  );
  await writer.set('token', 'the old secret');

  expect(await reader.get('token')).toBeUndefined();
});

test('long secret: if a part is missing permanently, the read returns none', async () => {
  const inner = memorySecretStore();
  const store = chunkedSecretStore(inner, 4);
  await store.set('token', 'the old secret');
  const head = (await inner.get('token')) ?? '';
  await inner.remove(`token part ${head.split(':')[1]} 1`);

  expect(await store.get('token')).toBeUndefined();
});
