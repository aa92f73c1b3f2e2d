import { parseObject } from 'latchkey-mcp/json-value';
import { createHash } from 'node:crypto';
import { readdir, mkdir, readFile, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { EpochSeconds } from '#clock/clock';
import { ConfigurationError } from '#config/errors';
import { writeNew } from '#atomic-file';
import { maskedFile } from '#config/edit-file';
import { fileSnapshot, type FileSnapshot, replaceFile } from '#config/replace-file';

/** The permission bits of a file's owner. */
const ownersBits = 0o700;
/** The end of the name of our backups. Files with other names are not ours. */
const ownStamp = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(-\d+)?\.backup$/;

/**
 * Copies the file to one beside it, such as `mcp.json.2026-11-20T09-00-00Z.backup`, which only its owner can read.
 * `undefined` if there was nothing to copy.
 *
 * @throws {ConfigurationError}
 */
export async function backUpFile(
  { path: source, realPath, bytes, mode }: FileSnapshot,
  now: EpochSeconds,
): Promise<string | undefined> {
  if (bytes === undefined) return undefined;
  const stamp = new Date(now * 1000).toISOString().replace(/\.\d+/, '').replaceAll(':', '-');
  for (let count = 1; ; count++) {
    const path = `${realPath}.${stamp}${count > 1 ? `-${count}` : ''}.backup`;
    try {
      await writeNew(path, bytes, { mode: mode & ownersBits });
      return path;
    } catch (error) {
      const code =
        error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
      if (code === 'EEXIST') continue;
      const problem = `cannot be copied to a backup (${code}); nothing was changed`;
      throw new ConfigurationError([{ source, key: '', problem }]);
    }
  }
}

/** Applies `mask` to earlier backups of a file, to remove secrets that have been moved since. */
export async function maskBackups(
  { path, realPath }: FileSnapshot,
  mask: (text: string) => string,
  records: InstallRecords,
): Promise<void> {
  const folder = dirname(realPath);
  const file = `${basename(realPath)}.`;
  const isBackup = (name: string) =>
    name.startsWith(file) && ownStamp.test(name.slice(file.length));
  const beside = await readdir(folder, { withFileTypes: true });
  const backups = beside.filter((one) => !one.isDirectory() && isBackup(one.name));
  for (const { name } of backups) {
    const backup = await fileSnapshot(join(folder, name));
    const { bytes } = backup;
    if (bytes === undefined) continue;
    const masked = await maskedFile(bytes, path, mask);
    if (masked.equals(bytes)) continue;
    await replaceFile(backup, masked);
    await records.masked(backup.path, hashOf(masked));
  }
}

/** A record of the change that an installation made to a file, so that it can be undone. Contains nothing of the file itself. */
export type InstallRecord = {
  /** The copy of the file before the change; `undefined` if there was no file. */
  backup?: string;
  /** SHA-256 of the file before; `undefined` if there was none. */
  before?: string;
  /** SHA-256 of the file after. */
  after: string;
  /** Secrets were removed from the copy, or an import recorded no copy. So an entry can be restored, but not the file. */
  masked?: true;
};

type InstallRecords = ReturnType<typeof installRecords>;

/** The records of installations in `directory`, one for each entry of a file. */
export function installRecords(directory: string) {
  const pathOf = (file: string, name: string) =>
    join(directory, `${hashOf(Buffer.from(JSON.stringify([file, name])))}.json`);

  return {
    async of(file: string, name: string): Promise<InstallRecord | undefined> {
      const text = await readFile(pathOf(file, name), 'utf8').catch(() => 'null');
      return parse(text);
    },
    async keep(file: string, name: string, record: InstallRecord): Promise<void> {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const snapshot = await fileSnapshot(pathOf(file, name));
      await replaceFile(snapshot, Buffer.from(JSON.stringify(record)));
    },
    /** Records the new hash of a `backup` from which secrets were removed. */
    async masked(backup: string, before: string): Promise<void> {
      for (const name of await readdir(directory).catch(() => [])) {
        const snapshot = await fileSnapshot(join(directory, name));
        const record = parse(snapshot.bytes?.toString() ?? 'null');
        if (record?.backup !== backup) continue;
        const changed: InstallRecord = { ...record, before, masked: true };
        await replaceFile(snapshot, Buffer.from(JSON.stringify(changed)));
      }
    },
    async drop(file: string, name: string): Promise<void> {
      await rm(pathOf(file, name), { force: true });
    },
    async isEmpty(): Promise<boolean> {
      return (await readdir(directory).catch(() => [])).length === 0;
    },
  };
}

export function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function parse(text: string): InstallRecord | undefined {
  const { backup, before, after, masked } = parseObject(text) ?? {};
  if (typeof after !== 'string') return undefined;
  return {
    after,
    ...(typeof backup === 'string' && { backup }),
    ...(typeof before === 'string' && { before }),
    ...(masked === true && { masked }),
  };
}
