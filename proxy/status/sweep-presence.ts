import { readdir, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { addressOf, isPresenceFile } from './presence-socket.ts';

/** So many are left for a watcher to clear away; a start has better things to do. */
const fewEnough = 16;
const oldMs = 60_000;

/** Removes what processes left behind that were killed, where that has become much. */
export async function sweepPresence(directory: string, platform: NodeJS.Platform): Promise<void> {
  const names = await readdir(directory).catch((): string[] => []);
  if (names.length <= fewEnough) return;
  for (const name of names) await removeStale(join(directory, name), platform);
}

/** Removes a file behind which nobody is; `false` when somebody is, or may be. */
export async function removeStale(file: string, platform: NodeJS.Platform): Promise<boolean> {
  if (isPresenceFile(file)) {
    if (!(await isDead(addressOf(file, platform)))) return false;
  } else {
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Date.now() }));
    if (mtimeMs > Date.now() - oldMs) return false;
  }
  await rm(file, { force: true }).catch(() => undefined);
  return true;
}

/** Only a refused connection proves it; a busy one does not. */
export function isDeadCode(code: unknown): boolean {
  return code === 'ECONNREFUSED' || code === 'ENOENT';
}

async function isDead(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address).unref();
    socket.on('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(isDeadCode(error.code)));
  });
}
