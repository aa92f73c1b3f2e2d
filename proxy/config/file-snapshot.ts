import { lstat, open, realpath } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { ConfigurationError } from './configuration-error.ts';

/** A file as it was found, to be replaced as a whole. */
export type FileSnapshot = {
  /** As it was named. */
  path: string;
  /** Where it really is, behind symbolic links, so that a replacement leaves them in place. */
  realPath: string;
  /** `undefined` when there is none. */
  bytes: Buffer | undefined;
  /** Permission bits, kept by whatever replaces it. */
  mode: number;
};

/** A file that we make is its owner's alone: it may get a secret later. */
const newFileMode = 0o600;

/**
 * Looks at a file that is about to be changed.
 *
 * @throws {ConfigurationError} when it is nothing that this user may replace
 */
export async function fileSnapshot(path: string): Promise<FileSnapshot> {
  const refuse = (problem: string) => new ConfigurationError([{ source: path, key: '', problem }]);
  const link = await absentIsUndefined(lstat(path));
  if (!link)
    return { path, realPath: await withRealFolder(path), bytes: undefined, mode: newFileMode };
  const realPath = await absentIsUndefined(realpath(path));
  if (realPath === undefined) throw refuse('is a link to a file that does not exist; remove it');
  const file = await open(realPath, 'r').catch((error: unknown) => {
    throw refuse(`cannot be read (${codeOf(error)})`);
  });
  try {
    const { mode, uid, size } = await file.stat().then((stats) => {
      if (!stats.isFile()) throw refuse('is not a file');
      return stats;
    });
    // Behind a link that somebody else made may be somebody else's file.
    const me = userInfo().uid;
    if (me > 0 && uid !== me) throw refuse('belongs to another user');
    if (size > 64 * 1024 * 1024) throw refuse('is too large for a configuration');
    return { path, realPath, bytes: await file.readFile(), mode: mode & 0o777 };
  } finally {
    await file.close();
  }
}

async function withRealFolder(path: string): Promise<string> {
  const folder = await absentIsUndefined(realpath(dirname(path)));
  return folder === undefined ? path : join(folder, basename(path));
}

async function absentIsUndefined<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
}
