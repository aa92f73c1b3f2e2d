import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { mkdir, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomically } from '#atomic-file';
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

  return {
    get: (account) =>
      guarded(async () => {
        // First, so that a sign-in, which looks for tokens before it opens the browser, fails without its key.
        const key = await keyRead();
        const sealed = await absentIsUndefined(readFile(pathOf(account)));
        return sealed && open256(key, account, sealed);
      }),

    set: (account, secret) =>
      guarded(async () => {
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
  const unfit = (why: string, cause?: unknown) =>
    new SecretStoreError('key_file', `the key file ${keyFile} ${why}`, { cause });
  const [content, { mode }] = await Promise.all([readFile(keyFile), stat(keyFile)]).catch(
    (error: unknown): [Buffer, Stats] => {
      const code =
        error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
      throw unfit(code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`, error);
    },
  );
  if (content.length < leastKeyBytes)
    throw unfit(`has ${content.length} bytes; at least ${leastKeyBytes} are required`);
  if (platform !== 'win32' && (mode & 0o077) !== 0) throw unfit('is readable by other users');
  return Buffer.from(hkdfSync('sha256', content, '', 'latchkey file secret store', 32));
}

function seal256(key: Buffer, account: string, secret: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(account));
  return Buffer.concat([magic, nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
}

function open256(key: Buffer, account: string, sealed: Buffer): string {
  const nonceEnd = magic.length + nonceBytes;
  try {
    const nonce = sealed.subarray(magic.length, nonceEnd);
    const decipher = createDecipheriv('aes-256-gcm', key, nonce)
      .setAAD(Buffer.from(account))
      .setAuthTag(sealed.subarray(-tagBytes));
    return (
      decipher.update(sealed.subarray(nonceEnd, -tagBytes)).toString() + decipher.final('utf8')
    );
  } catch (error) {
    throw new SecretStoreError('locked', 'the key file does not match the stored secret', {
      cause: error,
    });
  }
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
