import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { EpochSeconds } from '#clock/clock';
import { fileSnapshot, type FileSnapshot } from './file-snapshot.ts';
import { hashOf, type InstallRecords } from './install-record.ts';
import { maskedStrings } from './masked-strings.ts';
import { replaceFile, writeDurably } from './replace-file.ts';

/** The permission bits of whoever owns a file. */
const ownersBits = 0o700;
/** Other backups beside the file are not ours. */
const ownStamp = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(-\d+)?\.backup$/;

/**
 * A copy beside the file, as `mcp.json.2026-11-20T09-00-00Z.backup`, its owner's alone whoever may read
 * the file. `undefined` when there was nothing to copy.
 */
export async function backUpFile(
  { realPath, bytes, mode }: FileSnapshot,
  now: EpochSeconds,
): Promise<string | undefined> {
  if (bytes === undefined) return undefined;
  const stamp = new Date(now * 1000).toISOString().replace(/\.\d+/, '').replaceAll(':', '-');
  for (let count = 1; ; count++) {
    const path = `${realPath}.${stamp}${count > 1 ? `-${count}` : ''}.backup`;
    try {
      await writeDurably(path, bytes, mode & ownersBits);
      return path;
    } catch (error) {
      const taken = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!taken) throw error;
    }
  }
}

/** Takes out of a file's earlier backups what `mask` changes, such as secrets that have moved since. */
export async function maskBackups(
  { realPath }: FileSnapshot,
  mask: (text: string) => string,
  records: InstallRecords,
): Promise<void> {
  const folder = dirname(realPath);
  const file = `${basename(realPath)}.`;
  const isBackup = (name: string) =>
    name.startsWith(file) && ownStamp.test(name.slice(file.length));
  for (const name of (await readdir(folder)).filter(isBackup)) {
    const backup = await fileSnapshot(join(folder, name));
    const { bytes } = backup;
    if (bytes === undefined) continue;
    const masked = await maskedStrings(bytes, mask);
    if (masked.equals(bytes)) continue;
    await replaceFile(backup, masked);
    await records.masked(backup.path, hashOf(masked));
  }
}
