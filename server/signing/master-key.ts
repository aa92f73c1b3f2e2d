import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

/** The one key that everything which must be readable again is encrypted under. */
export interface MasterKey {
  /** AES-256-GCM, bound to `purpose`, so that one sealed value cannot stand in for another. Base64url. */
  seal(purpose: string, plaintext: string): string;

  /** @throws when it was sealed under another key or for another purpose, or was changed since. */
  open(purpose: string, sealed: string): string;

  /** 32 bytes for one purpose, the same each time, which tell nothing about the key itself. RFC 5869 */
  derive(purpose: string): Buffer;

  /** A code that nobody makes who lacks the key, the same for the same text: HMAC-SHA-256, base64url. */
  mac(purpose: string, text: string): string;
}

/**
 * The master key in `file`, made there (mode 0600) where there is none and `mayCreate` says so: never
 * beside a database that already holds things sealed under a key that is now missing.
 */
export function readMasterKey(file: string, { mayCreate }: { mayCreate: boolean }): MasterKey {
  if (!existsSync(file)) {
    if (!mayCreate) {
      throw new Error(
        `the master key ${file} is missing, and the database holds keys encrypted under it: ` +
          'put it back, or name it with --master-key-file',
      );
    }
    createKeyFile(file);
  }
  if ((statSync(file).mode & 0o077) !== 0 && process.platform !== 'win32') {
    throw new Error(`the master key ${file} can be read by others: chmod 600 ${file}`);
  }
  const key = parseMasterKey(readFileSync(file, 'utf8'));
  if (!key) throw new Error(`${file} does not hold a master key of 32 bytes`);
  return key;
}

/** The master key as its file spells it; `undefined` for what is none. */
export function parseMasterKey(text: string): MasterKey | undefined {
  const key = Buffer.from(text.trim(), 'base64url');
  return key.length === keyBytes ? masterKey(key) : undefined;
}

/** Puts a master key into `file` (mode 0600); one that is there already stays. */
export function keepMasterKey(file: string, text: string): void {
  writeKeyFile(file, text.trim());
}

function createKeyFile(file: string): void {
  writeKeyFile(file, randomBytes(keyBytes).toString('base64url'));
}

/** Two processes that start at once end up with the one key that was linked first, whole. */
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
