import {
  lstat,
  open,
  realpath,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
} from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { syncFolder, temporaryName, writeNew } from '#atomic-file';
import { ConfigurationError } from './errors.ts';

/** The state of a file before it is replaced. */
export type FileSnapshot = {
  /** The path that the caller gave. */
  path: string;
  /** Its path after symbolic links are resolved, so that a replacement keeps the links. */
  realPath: string;
  /** `undefined` if the file does not exist. */
  bytes: Buffer | undefined;
  /** Permission bits, which its replacement gets as well. */
  mode: number;
};

/** Only the owner can read a file that we create, because it may later contain a secret. */
const newFileMode = 0o600;

/**
 * Reads a file that is about to be changed.
 *
 * @throws {ConfigurationError} if it cannot be read, or must not be replaced
 */
export async function fileSnapshot(path: string): Promise<FileSnapshot> {
  const refuse = (problem: string) => new ConfigurationError([{ source: path, key: '', problem }]);
  const unread = (error: unknown) => refuse(`cannot be read (${codeOf(error)})`);
  const link = await absentIsUndefined(lstat(path), unread);
  if (!link)
    return { path, realPath: await withRealFolder(path), bytes: undefined, mode: newFileMode };
  const realPath = await absentIsUndefined(realpath(path), unread);
  if (realPath === undefined) throw refuse('is a link to a file that does not exist; remove it');
  const file = await open(realPath, 'r').catch((error: unknown) => {
    throw unread(error);
  });
  try {
    const { mode, uid, size } = await file.stat().then((stats) => {
      if (!stats.isFile()) throw refuse('is not a file');
      return stats;
    });
    // A link may lead to another user's file.
    const me = userInfo().uid;
    if (me > 0 && uid !== me) throw refuse('belongs to another user');
    if (size > 64 * 1024 * 1024) throw refuse('is too large for a configuration');
    const bytes = await file.readFile().catch((error: unknown) => {
      throw unread(error);
    });
    return { path, realPath, bytes, mode: mode & 0o777 };
  } finally {
    await file.close();
  }
}

async function withRealFolder(path: string): Promise<string> {
  const folder = await realpath(dirname(path)).catch(() => undefined);
  return folder === undefined ? path : join(folder, basename(path));
}

async function absentIsUndefined<T>(
  work: Promise<T>,
  failure: (error: unknown) => Error,
): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (/^(ENOENT|ENOTDIR)$/.test(codeOf(error))) return undefined;
    throw failure(error);
  });
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
}

const busyAttempts = 20;
const busyRetryMs = 50;
/** An older temporary file is from a process that crashed. */
const leftoverMs = 60_000;

/**
 * Replaces a file in one step: readers get the old file or the new one, even if this process or the computer crashes. It is on
 * disk once this resolves. `undefined` removes the file. If another program has changed it since the snapshot, nothing is
 * written.
 *
 * @throws {ConfigurationError}
 */
export async function replaceFile(
  { path, realPath, bytes: before, mode }: FileSnapshot,
  bytes: Buffer | undefined,
): Promise<void> {
  const folder = dirname(realPath);
  const temporary = temporaryName(join(folder, `.${basename(realPath)}`));
  try {
    if (bytes !== undefined) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await removeLeftovers(folder, basename(realPath));
      await writeNew(temporary, bytes, { mode });
    }
    const now = await readFile(realPath).catch(() => undefined);
    if (before === undefined ? now !== undefined : !now?.equals(before))
      throw refusal(path, 'was just changed by another program; nothing was written, try again');
    if (bytes === undefined) await rm(realPath, { force: true });
    else await renameOver(temporary, realPath);
    await syncFolder(folder);
  } catch (error) {
    await rm(temporary, { force: true });
    if (error instanceof ConfigurationError) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw refusal(path, `cannot be written (${code})`);
  }
}

/** Removes temporary files of processes that crashed while writing. */
async function removeLeftovers(folder: string, name: string): Promise<void> {
  for (const found of await readdir(folder)) {
    if (!found.startsWith(`.${name}.`) || !/\.[0-9a-f]{12}\.tmp$/.test(found)) continue;
    const path = join(folder, found);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > leftoverMs) await rm(path, { force: true });
  }
}

/** On Windows this fails while a virus scanner or the assistant has the file open. */
async function renameOver(from: string, to: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await rename(from, to);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : '';
      const busy = code === 'EPERM' || code === 'EACCES' || code === 'EBUSY';
      if (!busy || attempt >= busyAttempts) throw error;
      await new Promise((resolve) => setTimeout(resolve, busyRetryMs));
    }
  }
}

function refusal(source: string, problem: string): ConfigurationError {
  return new ConfigurationError([{ source, key: '', problem }]);
}
