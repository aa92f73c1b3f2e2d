import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { chunkedSecretStore, osSecretStore } from '#proxy/keychain/os-secret-store';
import { fileSecretStore } from '#proxy/keychain/file-secret-store';
import { filesRemedy } from '#proxy/key-file-commands';
import { words } from '#proxy/errors';
import {
  memorySecretStore,
  SecretStoreError,
  type SecretStore,
} from '#proxy/keychain/secret-store';
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

test('secret file: another master key opens and replaces nothing', async () => {
  const other = join(directory, 'other-key');
  writeFileSync(other, 'o'.repeat(44), { mode: 0o600 });
  await file().set('account', 'secret');
  const refusal = {
    code: 'other_key',
    message: `the key file ${other} is not the one that the stored secrets were sealed with`,
  };

  await expect(file(other).get('account')).rejects.toMatchObject(refusal);
  await expect(file(other).set('account', 'another')).rejects.toMatchObject(refusal);
  expect(await file().get('account')).toBe('secret');
});

test.skipIf(platform === 'win32')(
  'secret file: the remedy for a lost key moves the secrets away, after which new ones are stored',
  async () => {
    await using home = await temporaryFolder();
    const store = (key: string) =>
      fileSecretStore({ directory: join(home.path, "dana's secrets"), keyFile: key, platform });
    await store(keyFile).set('account', 'secret');
    const other = join(home.path, 'other-key');
    writeFileSync(other, 'o'.repeat(44), { mode: 0o600 });
    const { hint } = words(await caught(store(other).get('account')));

    execFileSync('sh', ['-c', hint.slice(hint.indexOf('mv '))]);
    expect(await store(other).get('account')).toBeUndefined();
    await store(other).set('account', 'another');
    expect(await store(other).get('account')).toBe('another');
    expect(readdirSync(join(home.path, "dana's secrets.lost"))).toHaveLength(1);
  },
);

test.skipIf(platform === 'win32')(
  'secret file: the commands for a new key make one that fits, and never replace it',
  async () => {
    await using home = await temporaryFolder();
    const key = join(home.path, '.latchkey-key');
    const { hint } = words(new SecretStoreError('unavailable', 'no keychain is running'));
    const paste = (shell: string) =>
      execFileSync(shell, ['-c', `${hint.slice(hint.indexOf('[ -e'))}; env`], {
        env: { HOME: home.path, PATH: process.env['PATH'] },
        encoding: 'utf8',
      });

    expect(paste('sh')).toContain(`LATCHKEY_SECRET_STORE_KEY_FILE=${key}\n`);
    const made = readFileSync(key, 'utf8');
    await fileSecretStore({ directory: join(home.path, 'secrets'), keyFile: key, platform }).get(
      '',
    );
    expect(paste('bash')).toContain('LATCHKEY_SECRET_STORE=file\n');
    expect(readFileSync(key, 'utf8')).toBe(made);
  },
);

test('without a keychain: encrypted secrets that are there already need their key, not a new one', async () => {
  await using home = await temporaryFolder();
  const secrets = join(home.path, 'secrets');
  const before = filesRemedy(secrets, home.path);
  await fileSecretStore({ directory: secrets, keyFile, platform }).set('account', 'secret');
  const elsewhere = filesRemedy(secrets, home.path);
  writeFileSync(join(home.path, '.latchkey-key'), 'k');
  const refused = osSecretStore({
    platform,
    load: async () => Promise.reject(new Error('D-Bus')),
    remedy: () => filesRemedy(secrets, home.path),
  });

  const { message, hint } = words(await caught(refused.get('account')));

  expect(before).toBeUndefined();
  expect(elsewhere).toContain('LATCHKEY_SECRET_STORE_KEY_FILE=FILE');
  expect(message).toBe('no keychain is running');
  expect(hint).toContain('LATCHKEY_SECRET_STORE_KEY_FILE="$HOME/.latchkey-key"');
  expect(hint).not.toContain('openssl');
});

async function caught(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

test('secret file: a secret that is copied to another account cannot be opened', async () => {
  const swapped = join(directory, 'swapped');
  const store = fileSecretStore({ directory: swapped, keyFile, platform });
  await store.set('account one', 'secret one');
  const [one = ''] = readdirSync(swapped);
  await store.set('account two', 'secret two');
  const two = readdirSync(swapped).find((name) => name !== one) ?? '';
  renameSync(join(swapped, one), join(swapped, two));

  await expect(store.get('account two')).rejects.toMatchObject({ code: 'other_key' });
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
