import type { EpochSeconds } from '#clock/clock';
import type { FileSnapshot } from './file-snapshot.ts';
import { writeDurably } from './replace-file.ts';

/**
 * A copy beside the file, as `mcp.json.2026-11-20T09-00-00Z.backup`, with the file's own permissions.
 * `undefined` when there was nothing to copy.
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
      await writeDurably(path, bytes, mode);
      return path;
    } catch (error) {
      const taken = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!taken) throw error;
    }
  }
}
