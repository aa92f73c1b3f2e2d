import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';

import { asServerUser, isPermissionFault, mayNot } from '#model/running-user';
import { shellWord } from '#model/shell-word';

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

/** The key that encrypts every secret that must remain readable. It is never part of a backup. */
export interface MasterKey {
  /** AES-256-GCM, bound to `purpose`, so that one sealed value cannot replace another. Base64url. */
  seal(purpose: string, plaintext: string): string;

  /** @throws if the value was sealed under another key or for another purpose, or was modified */
  open(purpose: string, sealed: string): string;

  /** Derives 32 bytes for one purpose. They are always the same, and reveal nothing about the key. RFC 5869 */
  derive(purpose: string): Buffer;

  /** HMAC-SHA-256 of the text for one purpose, base64url. */
  mac(purpose: string, text: string): string;
}

/** The part of the master key that most modules use. */
export type Sealing = Pick<MasterKey, 'seal' | 'open' | 'mac'>;

/**
 * Reads the master key from `file`. If the file is missing and `mayCreate` is set, creates it (mode 0600). Do not set
 * `mayCreate` when the database already contains secrets: they were encrypted with a key that is now missing.
 *
 * @throws {Error} when the file is missing, readable by others, or does not contain a key
 */
export function readMasterKey(file: string, { mayCreate }: { mayCreate: boolean }): MasterKey {
  if (!exists(file)) {
    if (!mayCreate) {
      throw new Error(
        `the master key ${file} is missing, but the database contains keys that are encrypted with it: ` +
          'restore the file, or name it with --master-key-file',
      );
    }
    createKeyFile(file);
  }
  if ((statSync(file).mode & 0o077) !== 0 && process.platform !== 'win32') {
    throw new Error(
      `the master key ${file} is readable by other users: chmod 600 ${shellWord(file)}`,
    );
  }
  const key = parseMasterKey(readable(file, () => readFileSync(file, 'utf8')));
  if (!key) throw new Error(`${file} does not contain a master key of 32 bytes`);
  return key;
}

function exists(file: string): boolean {
  return readable(file, () => statSync(file, { throwIfNoEntry: false }) !== undefined);
}

/** @throws {Error} that tells what to do if this user may not read the file */
function readable<Result>(file: string, read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    if (!isPermissionFault(cause)) throw cause;
    const why = `the master key ${file} cannot be read: ${mayNot('read it')}: let that user read it, or ${asServerUser}`;
    throw new Error(why, { cause });
  }
}

/** Parses the contents of a master key file; `undefined` if invalid. */
export function parseMasterKey(text: string): MasterKey | undefined {
  const key = Buffer.from(text.trim(), 'base64url');
  return key.length === keyBytes ? masterKey(key) : undefined;
}

/** Writes a master key to `file` (mode 0600) unless the file exists. */
export function storeMasterKey(file: string, text: string): void {
  writeKeyFile(file, text.trim());
}

function createKeyFile(file: string): void {
  writeKeyFile(file, randomBytes(keyBytes).toString('base64url'));
}

/** Writes a complete file atomically. If two processes do so at the same time, both then use the key that was linked first. */
function writeKeyFile(file: string, text: string): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  writeFileSync(draft, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    if (!existsSync(file)) throw error;
  } finally {
    unlinkSync(draft);
  }
}

/** @param key 32 bytes */
export function masterKey(key: Uint8Array): MasterKey {
  const macKey = Buffer.from(hkdfSync('sha256', key, '', 'latchkey mac', keyBytes));
  return {
    seal(purpose, plaintext) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(purpose));
      const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url');
    },

    derive: (purpose) => Buffer.from(hkdfSync('sha256', key, '', purpose, keyBytes)),

    open(purpose, sealed) {
      const bytes = Buffer.from(sealed, 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      })
        .setAAD(Buffer.from(purpose))
        .setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
      const body = bytes.subarray(nonceBytes + tagBytes);
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8');
    },

    mac: (purpose, text) =>
      createHmac('sha256', macKey)
        .update(JSON.stringify([purpose, text]))
        .digest('base64url'),
  };
}
