import type { EpochSeconds } from '#clock/clock';
import type { FileSnapshot } from './file-snapshot.ts';
import { writeDurably } from './replace-file.ts';

/** The permission bits of whoever owns a file. */
const ownersBits = 0o700;

/**
 * A copy beside the file, as `mcp.json.2026-11-20T09-00-00Z.backup`, its owner's alone whoever may read
 * the file: what is taken out of it for being secret stays in the copy. `undefined` when there was nothing
 * to copy.
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
