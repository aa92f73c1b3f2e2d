import { randomBytes } from 'node:crypto';
import { chmod, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

export type WriteOptions = {
  /** Permission bits. By default, only the owner may read and write. */
  mode?: number;
  /** Whether the file survives a crash of the computer once the promise has resolved. Default: true. */
  durable?: boolean;
};

const ownersMode = 0o600;

/** The path of a temporary file in the same folder, which will replace the file at `path`. */
export function temporaryName(path: string): string {
  return `${path}.${randomBytes(6).toString('hex')}.tmp`;
}

/**
 * Replaces the file at `path` in one step: readers get the old file or the new one, even if this process crashes.
 *
 * @throws the error of the platform; the temporary file is then removed
 */
export async function writeAtomically(
  path: string,
  content: Uint8Array | string,
  options: WriteOptions = {},
): Promise<void> {
  const temporary = temporaryName(path);
  try {
    await writeNew(temporary, content, options);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  if (options.durable ?? true) await syncFolder(dirname(path));
}

/** Creates a file with exactly these permissions. Fails if the path exists, even as a symbolic link. */
export async function writeNew(
  path: string,
  content: Uint8Array | string,
  { mode = ownersMode, durable = true }: WriteOptions = {},
): Promise<void> {
  const file = await open(path, 'wx', mode);
  try {
    await file.writeFile(content);
    if (durable) await file.sync();
  } finally {
    await file.close();
  }
  // The umask of this process may have removed permission bits at creation.
  await chmod(path, mode);
}

/** Syncs a folder, so that a rename in it survives a crash. Does nothing where folders cannot be synced, as on Windows. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
