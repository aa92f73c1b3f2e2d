import { lstat, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { getAsset, getRawAsset } from 'node:sea';
import { writeAtomically } from '#atomic-file';
import type { Clock } from '#clock/clock';
import type { KeyringLibrary } from './os-secret-store.ts';

/** A native library that an executable carries within itself. */
export type EmbeddedLibrary = {
  /** Its file name before the hash: `keyring`. */
  readonly name: string;
  readonly bytes: Uint8Array;
  /** SHA-256 of `bytes`, in hexadecimal, computed when the executable was built. */
  readonly sha256: string;
};

/** The folder for the library cannot be trusted. */
class EmbeddedLibraryError extends Error {
  override readonly name = 'EmbeddedLibraryError';
}

const unusedForMs = 90 * 24 * 60 * 60 * 1000;

/**
 * Loads the keychain's library, which this executable embeds, from a file under `directory`. The package's own loader
 * is not used, because it loads any file that NAPI_RS_NATIVE_LIBRARY_PATH names.
 */
export async function openEmbeddedKeyring(
  directory: string,
  { platform, clock }: { platform: NodeJS.Platform; clock: Clock },
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
  if (!AsyncEntry) throw new Error(`${path} is not a keychain library`);
  return { AsyncEntry };
}

/**
 * Returns the path of a file with exactly the bytes of `library`, because no system loads a library from memory. The
 * file is in `directory`, which only this user may enter. Its name contains its hash, so that versions do not conflict.
 * It is compared with the executable's own bytes at every start, and replaced in one step if anything differs. Files of
 * other versions are removed after 90 days, when a new one is written.
 *
 *     DIRECTORY/keyring-0f3a….node
 *
 * @throws {EmbeddedLibraryError} if the directory belongs to, or is open to, another user
 */
export async function embeddedLibrary(
  { name, bytes, sha256 }: EmbeddedLibrary,
  directory: string,
  { platform, userId, now }: { platform: NodeJS.Platform; userId: number; now: number },
): Promise<string> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const folder = await lstat(directory);
  // Windows separates profiles with access control lists, which these bits do not show.
  const ours = platform === 'win32' || (folder.uid === userId && (folder.mode & 0o077) === 0);
  if (!folder.isDirectory() || !ours)
    throw new EmbeddedLibraryError(
      `${directory} is accessible to other users, who could place a program there: remove the folder, or run chmod 700 on it`,
    );

  const path = join(directory, `${name}-${sha256}.node`);
  if (await holds(path, bytes)) return path;
  try {
    await writeAtomically(path, bytes);
  } catch (error) {
    // On Windows, a loaded library cannot be replaced. If its bytes are right, another process was quicker.
    if (!(await holds(path, bytes))) throw error;
  }
  await removeOld(directory, path, now);
  return path;
}

/** Whether `path` is a plain file, no link, with these bytes. */
async function holds(path: string, bytes: Uint8Array): Promise<boolean> {
  try {
    const found = await lstat(path);
    return found.isFile() && found.size === bytes.length && (await readFile(path)).equals(bytes);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}

async function removeOld(directory: string, kept: string, now: number): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (path === kept) continue;
    const { mtimeMs } = await lstat(path).catch(() => ({ mtimeMs: now }));
    // On Windows, a file that another process has loaded cannot be removed. The next run tries again.
    if (now - mtimeMs > unusedForMs) await rm(path, { force: true }).catch(() => undefined);
  }
}
