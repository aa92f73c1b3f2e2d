import { createHash } from 'node:crypto';
import { lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

/** What a Unix socket's path may be long, everywhere: macOS has 104 bytes with the final zero. */
const longestPathBytes = 100;
/** `/`, a process id, a dash, 12 characters, the ending. */
const longestNameBytes = 32;

export type PresencePlace = {
  /** Where this program keeps its state. */
  stateDirectory: string;
  platform: NodeJS.Platform;
  /** Of this user; -1 where there is no such number. */
  userId: number;
};

/**
 * The folder in which running proxies are found: one that only this user can enter. It is in the state
 * directory, as assistants hand on neither `XDG_RUNTIME_DIR` nor `TMPDIR`; where that makes too long a
 * name for a socket, in `/tmp`.
 *
 * @throws {Error} when others can enter it
 */
export async function presenceDirectory({
  stateDirectory,
  platform,
  userId,
}: PresencePlace): Promise<string> {
  const own = join(stateDirectory, 'running');
  const tooLong = Buffer.byteLength(own) + longestNameBytes > longestPathBytes;
  if (platform === 'win32' || !tooLong) return guarded(own, platform, userId);
  const mark = createHash('sha256').update(stateDirectory).digest('hex').slice(0, 16);
  return guarded(`/tmp/latchkey-${userId}-${mark}`, platform, userId);
}

/** In `/tmp` somebody else may have made it before us. */
async function guarded(path: string, platform: NodeJS.Platform, userId: number): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  if (platform === 'win32') return path;
  const { uid, mode } = await lstat(path);
  const isOurs = uid === userId && (mode & 0o170077) === 0o040000;
  if (!isOurs) throw new Error(`${path} is not a folder of this user alone`);
  return path;
}
