import { createPrivateKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { OAuthError } from './oauth-error.ts';

/**
 * The private key in a PEM file, which may be encrypted under `passphrase`.
 *
 * @throws {OAuthError} `client`, never with anything of the file
 */
export async function readPrivateKey(
  path: string,
  passphrase: string | undefined,
): Promise<KeyObject> {
  const pem = await readFile(path).catch((error: unknown) => {
    throw unusable(path, 'cannot be read', error);
  });
  try {
    return createPrivateKey({ key: pem, ...(passphrase !== undefined && { passphrase }) });
  } catch (error) {
    const encrypted = pem.includes('ENCRYPTED');
    const why = encrypted
      ? 'cannot be decrypted; is LATCHKEY_PRIVATE_KEY_PASSPHRASE right?'
      : 'is no private key in PEM';
    throw unusable(path, why, error);
  }
}

function unusable(path: string, why: string, cause: unknown): OAuthError {
  return new OAuthError('client', `privateKeyFile ${path} ${why}`, { endpoint: path }, { cause });
}
