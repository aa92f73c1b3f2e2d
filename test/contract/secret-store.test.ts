import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { chunkedSecretStore, osSecretStore } from '#proxy/keychain/os-secret-store';
import { fileSecretStore } from '#proxy/keychain/file-secret-store';
import { memorySecretStore, type SecretStore } from '#proxy/keychain/secret-store';
import { secretStoreContract } from './secret-store.ts';

const { platform } = process;

const memory = memorySecretStore();
secretStoreContract('secret store in memory', () => ({ store: memory, again: memory }));

const inner = limitedStore(1_200);
secretStoreContract('chunked secret store', () => ({
  store: chunkedSecretStore(inner, 1_200),
  again: chunkedSecretStore(inner, 1_200),
}));

/** A store that refuses what the Windows Credential Manager would. */
function limitedStore(maxChars: number): SecretStore {
  const store = memorySecretStore();
  return {
    ...store,
    set: (account, secret) => {
      if (secret.length > maxChars) throw new Error('too long');
      return store.set(account, secret);
    },
  };
}

const folder = await temporaryFolder();
afterAll(() => folder[Symbol.asyncDispose]());
const directory = folder.path;
const keyFile = join(directory, 'key');
writeFileSync(keyFile, 'k'.repeat(44), { mode: 0o600 });
const file = (key = keyFile) =>
  fileSecretStore({ directory: join(directory, 'secrets'), keyFile: key, platform });
secretStoreContract('secret file', () => ({ store: file(), again: file() }));

test('secret file: what is on disk is encrypted and readable by its owner only', async () => {
  await file().set('account', 'the secret itself');

  const names = readdirSync(join(directory, 'secrets'));
  const contents = names.map((name) => readFileSync(join(directory, 'secrets', name), 'latin1'));
  const modes = names.map((name) => statSync(join(directory, 'secrets', name)).mode & 0o777);

  expect(contents.join('')).not.toContain('the secret itself');
  expect(new Set(modes)).toEqual(new Set([0o600]));
});

test('secret file: another master key opens nothing', async () => {
  const other = join(directory, 'other-key');
  writeFileSync(other, 'o'.repeat(44), { mode: 0o600 });
  await file().set('account', 'secret');

  await expect(file(other).get('account')).rejects.toMatchObject({ code: 'locked' });
});

test('secret file: a secret that is copied to another account cannot be opened', async () => {
  const swapped = join(directory, 'swapped');
  const store = fileSecretStore({ directory: swapped, keyFile, platform });
  await store.set('account one', 'secret one');
  const [one = ''] = readdirSync(swapped);
  await store.set('account two', 'secret two');
  const two = readdirSync(swapped).find((name) => name !== one) ?? '';
  renameSync(join(swapped, one), join(swapped, two));

  await expect(store.get('account two')).rejects.toMatchObject({ code: 'locked' });
});

test.each([
  ['is absent', undefined, 0o600],
  ['is too short', 'short', 0o600],
  ['is readable by others', 'k'.repeat(44), 0o644],
])(
  'secret file: a key file that %s is refused before a secret is looked for',
  async (_, content, mode) => {
    await using elsewhere = await temporaryFolder();
    const bad = join(elsewhere.path, 'key');
    if (content !== undefined) writeFileSync(bad, content, { mode });

    await expect(file(bad).get('account')).rejects.toMatchObject({ code: 'key_file' });
    await expect(file(bad).get('never stored')).rejects.toMatchObject({ code: 'key_file' });
  },
);

if (platform === 'linux') {
  await suite('keychain', 'the keychain of the operating system', () => {
    const inherited = process.env['DBUS_SESSION_BUS_ADDRESS'];
    let session: KeychainSession;
    beforeAll(async () => {
      session = await keychainSession();
      Object.assign(process.env, session.env);
    });
    afterAll(async () => {
      await session[Symbol.asyncDispose]();
      process.env['DBUS_SESSION_BUS_ADDRESS'] = inherited;
    });
    const os = osSecretStore({ platform });
    const later = osSecretStore({ platform });
    secretStoreContract('secret store', () => ({ store: os, again: later }));
  });
}
