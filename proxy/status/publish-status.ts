import { randomBytes } from 'node:crypto';
import { chmod, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { eachLine, parseRequest, type ProxyRequest, type StatusEvent } from './status-protocol.ts';
import { statusSocket, removeStaleSockets } from './status-directory.ts';
import type { RunningProxy } from './running-proxy.ts';

export type PublishOptions = {
  directory: string;
  platform: NodeJS.Platform;
  pid: number;
  /** Returns the current status; called only while a watcher is connected. */
  snapshot: () => Promise<RunningProxy>;
  /** Carries out a watcher's request. */
  onRequest: (request: ProxyRequest) => Promise<void>;
};

/** A status that other programs of this user can watch. It does not keep the process alive. */
export interface PublishedStatus {
  /** Sends watchers a new snapshot soon; changes in quick succession share one. */
  changed(): void;
  close(): Promise<void>;
}

const maxWatchers = 16;
const maxRequestBytes = 1_024;
const maxUnreadBytes = 1024 * 1024;
const debounceMs = 100;
/** Some changes raise no event here, such as a token that another process renewed. */
const repeatMs = 10_000;

/**
 * Listens on a socket in the directory that watchers read.
 *
 * @throws {Error} the system's error, if the socket cannot be created
 */
export async function publishStatus(options: PublishOptions): Promise<PublishedStatus> {
  const { directory, platform, pid, snapshot, onRequest } = options;
  const name = `${pid}-${randomBytes(platform === 'win32' ? 16 : 6).toString('hex')}`;
  const { file, hidden } = statusSocket(directory, name, platform);
  const watchers = new Set<Socket>();
  let last = '';
  let pending: NodeJS.Timeout | undefined;
  let repeating: NodeJS.Timeout | undefined;

  const server = createServer((socket) => {
    socket.unref();
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      watchers.delete(socket);
      if (watchers.size === 0) clearInterval(repeating);
    });
    eachLine(socket, maxRequestBytes, (line) => void answer(socket, line));
  });
  server.maxConnections = maxWatchers;

  async function answer(socket: Socket, line: string): Promise<void> {
    const request = parseRequest(line);
    if (request === 'watch') {
      watchers.add(socket);
      clearInterval(repeating);
      repeating = setInterval(() => void publish(), repeatMs).unref();
      send(socket, { proxy: await snapshot() });
    } else if (request) {
      await onRequest(request).catch(() => undefined); // The next snapshot shows the failure.
      send(socket, { acknowledged: request });
    }
  }

  async function publish(): Promise<void> {
    pending = undefined;
    const proxy = await snapshot();
    const text = JSON.stringify(proxy);
    if (text === last) return;
    last = text;
    for (const watcher of watchers) send(watcher, { proxy });
  }

  await listening(server, hidden);
  if (platform === 'win32') await writeFile(file, '', { flag: 'wx', mode: 0o600 });
  else {
    await chmod(hidden, 0o600);
    // Watchers must not see it earlier: they would take a socket without a listener for one of a dead process.
    await rename(hidden, file);
  }
  void removeStaleSockets(directory, platform);

  return {
    changed() {
      if (watchers.size > 0) pending ??= setTimeout(() => void publish(), debounceMs).unref();
    },
    async close() {
      clearTimeout(pending);
      clearInterval(repeating);
      server.close();
      for (const watcher of watchers) watcher.destroy();
      await rm(file, { force: true });
    },
  };
}

function send(socket: Socket, event: StatusEvent): void {
  if (socket.writableLength > maxUnreadBytes) return void socket.destroy();
  if (!socket.destroyed) socket.write(`${JSON.stringify(event)}\n`);
}

async function listening(server: Server, address: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, () => resolve());
  });
  server.removeAllListeners('error').on('error', () => undefined);
  server.unref();
}
