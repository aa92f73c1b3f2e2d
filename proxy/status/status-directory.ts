import { createHash } from 'node:crypto';
import { lstat, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join, basename } from 'node:path';

/** The longest path of a Unix socket on any system: macOS allows 104 bytes with the final zero. */
const maxPathBytes = 100;
/** `/`, a process id, a dash, 12 characters, the ending. */
const maxNameBytes = 32;

export type StatusLocation = {
  /** Where this program keeps its state. */
  stateDirectory: string;
  platform: NodeJS.Platform;
  /** The id of this user; -1 on platforms without user ids. */
  userId: number;
};

/**
 * The folder with the sockets of running proxies, which only this user can enter. It is in the state
 * directory, because assistants pass on neither `XDG_RUNTIME_DIR` nor `TMPDIR`; if that makes the path
 * of a socket too long, the folder is in `/tmp`.
 *
 * @throws {Error} when other users can enter it
 */
export async function statusDirectory({
  stateDirectory,
  platform,
  userId,
}: StatusLocation): Promise<string> {
  const own = join(stateDirectory, 'running');
  const tooLong = Buffer.byteLength(own) + maxNameBytes > maxPathBytes;
  if (platform === 'win32' || !tooLong) return privateFolder(own, platform, userId);
  const mark = createHash('sha256').update(stateDirectory).digest('hex').slice(0, 16);
  return privateFolder(`/tmp/latchkey-${userId}-${mark}`, platform, userId);
}

/** Creates the folder, and checks its owner, because another user may have created it in `/tmp` first. */
async function privateFolder(
  path: string,
  platform: NodeJS.Platform,
  userId: number,
): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  if (platform === 'win32') return path;
  const { uid, mode } = await lstat(path);
  const isOurs = uid === userId && (mode & 0o170077) === 0o040000;
  if (!isOurs) throw new Error(`${path} is not a folder that only this user can access`);
  return path;
}

/**
 * The file by which a running proxy is found, and the address to connect to. On Unix both are the socket
 * itself. On Windows pipes are in no folder, every user can list them, and another user may connect to one:
 * a file that only this user can read names a pipe that cannot be guessed, and a proxy sends nothing
 * before a request.
 */
export type StatusSocket = {
  /** The file that watchers look for. */
  file: string;
  /** Where to listen before `file` becomes visible. */
  hidden: string;
  /** Where to connect. */
  address: string;
};

/** The end of the name of a socket with a listener. */
const ending = '.proxy';

export function statusSocket(
  directory: string,
  name: string,
  platform: NodeJS.Platform,
): StatusSocket {
  const file = join(directory, `${name}${ending}`);
  if (platform === 'win32') {
    const address = addressOf(file, platform);
    return { file, hidden: address, address };
  }
  return { file, hidden: join(directory, `${name}.new`), address: file };
}

/** The address to connect to for a file that was found. */
export function addressOf(file: string, platform: NodeJS.Platform): string {
  if (platform !== 'win32') return file;
  return `\\\\.\\pipe\\latchkey-${basename(file, ending)}`;
}

export function isStatusFile(name: string): boolean {
  return name.endsWith(ending);
}

/** Up to this number of files, a proxy leaves their removal to watchers, so that it starts faster. */
const toleratedFiles = 16;
const oldMs = 60_000;

/** Removes the files that killed processes left, when there are many. */
export async function removeStaleSockets(
  directory: string,
  platform: NodeJS.Platform,
): Promise<void> {
  const names = await readdir(directory).catch((): string[] => []);
  if (names.length <= toleratedFiles) return;
  for (const name of names) await removeStale(join(directory, name), platform);
}

/** Removes a file without a listener; `false` when there is, or may be, one. */
export async function removeStale(file: string, platform: NodeJS.Platform): Promise<boolean> {
  if (isStatusFile(file)) {
    if (!(await isDead(addressOf(file, platform)))) return false;
  } else {
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Date.now() }));
    if (mtimeMs > Date.now() - oldMs) return false;
  }
  await rm(file, { force: true }).catch(() => undefined);
  return true;
}

/** A refused connection proves that the process is dead; a busy one does not. */
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
