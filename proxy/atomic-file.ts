import { randomBytes } from 'node:crypto';
import { chmod, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

export type WriteOptions = {
  /** Permission bits; only the owner may read and write unless given. */
  mode?: number;
  /** Whether the file outlives a crash of the computer once the promise resolves; it does unless given. */
  durable?: boolean;
};

const ownersMode = 0o600;

/** The name of a file that is to replace the one at `path`, beside it. */
export function temporaryName(path: string): string {
  return `${path}.${randomBytes(6).toString('hex')}.tmp`;
}

/**
 * Replaces the file at `path` in one step: readers get the old file or the new one, even if this process crashes.
 *
 * @throws the error of the platform; nothing is left of the new file then
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

/** Writes a new file that no other name leads to, with exactly these permissions. */
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
  // What the process masked away at creation belongs to the file all the same.
  await chmod(path, mode);
}

/** A rename is durable once its folder is. Windows has no such call and needs none. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
