import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { mkdir, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomically } from '#atomic-file';
import { shellWord } from '#shell-word';
import { makeKeyCommand } from '#key-file-commands';
import { SecretStoreError, type SecretStore } from './secret-store.ts';

const magic = Buffer.from('latchkey1');
const nonceBytes = 12;
const tagBytes = 16;
const leastKeyBytes = 32;

/**
 * Encrypted files, one for each account, for hosts without a keychain. The key is derived from the contents of `keyFile` (at
 * least 32 bytes, readable by this user only), which should be on another volume or a mounted secret. The account is
 * authenticated too, so that files cannot be swapped.
 *
 *     "latchkey1" | 12-byte nonce | AES-256-GCM ciphertext | 16-byte tag
 */
export function fileSecretStore({
  directory,
  keyFile,
  platform,
}: {
  directory: string;
  keyFile: string;
  platform: NodeJS.Platform;
}): SecretStore {
  let reading: Promise<Buffer> | undefined;
  const keyRead = async () =>
    (reading ??= readKey(keyFile, platform).catch((error: unknown) => {
      reading = undefined;
      throw error;
    }));
  keyRead().catch(() => undefined);
  const pathOf = (account: string) =>
    join(directory, `${createHash('sha256').update(account).digest('hex')}.secret`);
  const read = async (account: string) => {
    // The key is read even if there is no secret, so that a sign-in without a key fails before it opens the browser.
    const key = await keyRead();
    const sealed = await absentIsUndefined(readFile(pathOf(account)));
    if (!sealed) return undefined;
    try {
      return open256(key, account, sealed);
    } catch (error) {
      throw otherKey(keyFile, directory, error);
    }
  };

  return {
    get: (account) => guarded(async () => read(account)),

    set: (account, secret) =>
      guarded(async () => {
        // The key file may be the wrong one by mistake, so a secret that it does not open must not be replaced.
        await read(account);
        await mkdir(directory, { recursive: true, mode: 0o700 });
        await writeAtomically(pathOf(account), seal256(await keyRead(), account, secret));
      }),

    remove: (account) =>
      guarded(async () => {
        await keyRead();
        return (await absentIsUndefined(unlink(pathOf(account)).then(() => true))) ?? false;
      }),
  };
}

async function readKey(keyFile: string, platform: NodeJS.Platform): Promise<Buffer> {
  const file = shellWord(keyFile);
  const unfit = (why: string, remedy: string, cause?: unknown) =>
    new SecretStoreError('key_file', `the key file ${keyFile} ${why}`, { cause, remedy });
  const [content, { mode }] = await Promise.all([readFile(keyFile), stat(keyFile)]).catch(
    (error: unknown): [Buffer, Stats] => {
      const code =
        error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
      if (code === 'ENOENT')
        throw unfit(
          'does not exist',
          `put it back, or correct LATCHKEY_SECRET_STORE_KEY_FILE; to make a new key: ${makeKeyCommand(file)}`,
          error,
        );
      throw unfit(`cannot be read (${code})`, 'check that it is a file that you can read', error);
    },
  );
  if (content.length < leastKeyBytes)
    throw unfit(
      `has ${content.length} bytes; at least ${leastKeyBytes} are required`,
      `name another file in LATCHKEY_SECRET_STORE_KEY_FILE; to make one: ${makeKeyCommand('FILE')}`,
    );
  if (platform !== 'win32' && (mode & 0o077) !== 0)
    throw unfit('is readable by other users', `chmod 600 ${file}`);
  return Buffer.from(hkdfSync('sha256', content, '', 'latchkey file secret store', 32));
}

function seal256(key: Buffer, account: string, secret: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(account));
  return Buffer.concat([magic, nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
}

function open256(key: Buffer, account: string, sealed: Buffer): string {
  const nonceEnd = magic.length + nonceBytes;
  const nonce = sealed.subarray(magic.length, nonceEnd);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce)
    .setAAD(Buffer.from(account))
    .setAuthTag(sealed.subarray(-tagBytes));
  return decipher.update(sealed.subarray(nonceEnd, -tagBytes)).toString() + decipher.final('utf8');
}

/** Without their key, the secrets are lost. Moving them away is the user's own decision, and can be undone if the key turns up. */
function otherKey(keyFile: string, directory: string, cause: unknown): SecretStoreError {
  const message = `the key file ${keyFile} is not the one that the stored secrets were sealed with`;
  const away = `mv ${shellWord(directory)} ${shellWord(`${directory}.lost`)}`;
  const remedy = `put the right key file back, or correct LATCHKEY_SECRET_STORE_KEY_FILE; if the key is lost, so are the secrets: move them away, then run latchkey setup or latchkey login again: ${away}`;
  return new SecretStoreError('other_key', message, { cause, remedy });
}

async function absentIsUndefined<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  });
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SecretStoreError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new SecretStoreError('unavailable', message, { cause: error });
  }
}
