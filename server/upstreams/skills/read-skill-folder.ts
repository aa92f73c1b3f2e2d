import { constants, type BigIntStats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';

import type { SkillFileEntry, SkillFiles } from '@modelcontextprotocol/server/ext/skills';

export interface SkillFolderLimits {
  readonly maxFileBytes: number;
  /** The bytes of all files together, which are kept in memory. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  readonly maxDepth: number;
}

export const skillFolderLimits: SkillFolderLimits = {
  maxFileBytes: 16 * 1024 * 1024,
  maxBytes: 64 * 1024 * 1024,
  maxEntries: 20_000,
  maxDepth: 16,
};

/** A folder of skills cannot be read. */
class SkillFolderError extends Error {
  override readonly name = 'SkillFolderError';
}

/** Something in a folder that is not served, and why. */
export interface SkillProblem {
  readonly path: string;
  readonly message: string;
}

/** What a folder held at one moment. */
export interface SkillFolderContent {
  readonly files: SkillFiles;
  readonly problems: readonly SkillProblem[];
}

/**
 * Reads a whole folder of skills, so that later requests do not access the file system. Only regular files and folders
 * are read: symbolic links are not followed, and devices and files that are being moved are left out. Names that begin
 * with a dot are ignored. `root` itself may be a link.
 *
 * @throws {SkillFolderError} when it does not exist, or is larger than the limits
 */
export async function readSkillFolder(
  root: string,
  limits: SkillFolderLimits = skillFolderLimits,
): Promise<SkillFolderContent> {
  const base = await rootOf(root);
  const folders = new Map<string, SkillFileEntry[]>();
  const contents = new Map<string, Uint8Array>();
  const problems: SkillProblem[] = [];
  let bytes = 0;
  const visit = async (folder: string): Promise<void> => {
    const entries = await entriesOf(base, folder, limits, () => countOf(folders));
    folders.set(folder, entries);
    for (const entry of entries) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.kind === 'directory') await visit(path);
      if (entry.kind !== 'file') continue;
      const read = await readPlainFile(base, path, limits.maxFileBytes);
      if (typeof read === 'string') {
        problems.push({ path, message: read });
        entry.kind = 'unsupported';
        continue;
      }
      bytes += read.length;
      if (bytes > limits.maxBytes) {
        throw new SkillFolderError(`${root} contains more than ${limits.maxBytes} bytes`);
      }
      contents.set(path, read);
    }
  };
  await visit('');
  await checkUnmoved(root, base);
  return { files: filesOf(folders, contents), problems };
}

/**
 * Returns a fingerprint of names, sizes and times, which differs whenever something in the folder may have changed.
 *
 * @throws {SkillFolderError}
 */
export async function fingerprintSkillFolder(
  root: string,
  limits: SkillFolderLimits = skillFolderLimits,
): Promise<string> {
  const base = await rootOf(root);
  const lines: string[] = [base];
  const visit = async (folder: string): Promise<void> => {
    for (const { name, kind } of await entriesOf(base, folder, limits, () => lines.length)) {
      const path = folder === '' ? name : `${folder}/${name}`;
      const stats = await lstat(join(base, path), { bigint: true }).catch(() => undefined);
      lines.push(
        `${path} ${kind} ${stats ? `${stats.ino} ${stats.size} ${stats.ctimeNs}` : 'gone'}`,
      );
      if (kind === 'directory') await visit(path);
    }
  };
  await visit('');
  await checkUnmoved(root, base);
  return lines.join('\n');
}

async function rootOf(root: string): Promise<string> {
  try {
    return await realpath(root);
  } catch (cause) {
    throw new SkillFolderError(`the folder ${root} does not exist`, { cause });
  }
}

/** Throws if the root was removed or moved while it was read, so that it is not mistaken for an empty folder. */
async function checkUnmoved(root: string, base: string): Promise<void> {
  if ((await rootOf(root)) !== base) throw new SkillFolderError(`${root} was moved`);
}

function countOf(folders: ReadonlyMap<string, readonly SkillFileEntry[]>): number {
  let count = 0;
  for (const entries of folders.values()) count += entries.length;
  return count;
}

async function entriesOf(
  base: string,
  folder: string,
  { maxEntries, maxDepth }: SkillFolderLimits,
  seen: () => number,
): Promise<{ name: string; kind: SkillFileEntry['kind'] }[]> {
  const where = folder === '' ? base : join(base, folder);
  if (folder.split('/').length > maxDepth) {
    throw new SkillFolderError(`${where} is nested deeper than ${maxDepth} folders`);
  }
  try {
    const entries = await readdir(where, { withFileTypes: true });
    if (seen() + entries.length > maxEntries) {
      throw new SkillFolderError(`${base} contains more than ${maxEntries} files and folders`);
    }
    if ((await realpath(where)) !== where) throw new SkillFolderError(`${where} was moved`);
    return entries
      .filter(({ name }) => !name.startsWith('.'))
      .map((entry) => ({
        name: entry.name,
        kind: entry.isFile() ? 'file' : entry.isDirectory() ? 'directory' : 'unsupported',
      }));
  } catch (cause) {
    if (cause instanceof SkillFolderError) throw cause;
    // The folder was removed after its parent was listed. If it was the root, `checkUnmoved` throws.
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return [];
    throw new SkillFolderError(`${where} cannot be listed`, { cause });
  }
}

/** The bytes of a file, or why it is not served. */
async function readPlainFile(
  base: string,
  path: string,
  maxBytes: number,
): Promise<Uint8Array | string> {
  const where = join(base, path);
  // If `where` is itself a link, it is not followed. Opening a pipe does not wait for its other end.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  // Node 22, which runs the sources as they are, does not know `await using`.
  let file: FileHandle | undefined;
  try {
    file = await open(where, flags);
    const stats = await file.stat({ bigint: true });
    if (!stats.isFile()) return 'is not a regular file';
    if (stats.size > maxBytes) return `is larger than ${maxBytes} bytes`;
    if (!(await isAt(where, stats))) return 'was moved while it was being read';
    const bytes = new Uint8Array(Number(stats.size));
    let at = 0;
    while (at < bytes.length) {
      const { bytesRead } = await file.read(bytes, at, bytes.length - at, at);
      if (bytesRead === 0) break;
      at += bytesRead;
    }
    return bytes.subarray(0, at);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no reason';
    return `cannot be read (${code})`;
  } finally {
    await file?.close();
  }
}

/** Whether the open file is the one at this path, with no symbolic link in the path. */
async function isAt(where: string, { ino, dev }: BigIntStats): Promise<boolean> {
  const there = await lstat(where, { bigint: true });
  return there.ino === ino && there.dev === dev && (await realpath(where)) === where;
}

function filesOf(
  folders: ReadonlyMap<string, readonly SkillFileEntry[]>,
  contents: ReadonlyMap<string, Uint8Array>,
): SkillFiles {
  return {
    async list(folder) {
      const entries = folders.get(folder);
      if (!entries) throw new SkillFolderError(`no folder ${folder}`);
      return [...entries];
    },
    async read(path) {
      const bytes = contents.get(path);
      if (!bytes) throw new SkillFolderError(`no file ${path}`);
      return bytes;
    },
  };
}
