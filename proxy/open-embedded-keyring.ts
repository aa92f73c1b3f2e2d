import { getAsset, getRawAsset } from 'node:sea';
import { userInfo } from 'node:os';
import type { Host } from '#host';
import type { KeyringLibrary } from '#keychain/os-secret-store';
import { embeddedLibrary } from '#keychain/embedded-library';

/**
 * The keychain's library out of this executable, loaded from a file under `directory`. The package's own
 * loader is left aside: it loads whatever NAPI_RS_NATIVE_LIBRARY_PATH names.
 */
export async function openEmbeddedKeyring(
  directory: string,
  { platform, clock }: Pick<Host, 'platform' | 'clock'>,
): Promise<KeyringLibrary> {
  const library = {
    name: 'keyring',
    bytes: new Uint8Array(getRawAsset('keyring.node')),
    sha256: getAsset('keyring.sha256', 'utf8'),
  };
  const userId = platform === 'win32' ? 0 : userInfo().uid;
  const now = clock.now() * 1000;
  const path = await embeddedLibrary(library, directory, { platform, userId, now });
  const module: { exports: Partial<KeyringLibrary> } = { exports: {} };
  process.dlopen(module, path);
  const { AsyncEntry } = module.exports;
  if (!AsyncEntry) throw new Error(`${path} is no keychain library`);
  return { AsyncEntry };
}
