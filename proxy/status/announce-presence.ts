import { randomBytes } from 'node:crypto';
import { chmod, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { eachLine } from './each-line.ts';
import { presenceSocket } from './presence-socket.ts';
import { readAsked, type ProxyRequest, type Said } from './presence-words.ts';
import type { RunningProxy } from './running-proxy.ts';
import { sweepPresence } from './sweep-presence.ts';

export type AnnouncedOptions = {
  directory: string;
  platform: NodeJS.Platform;
  pid: number;
  /** How the proxy is now; asked only while somebody watches. */
  tell: () => Promise<RunningProxy>;
  /** Does what a watcher asks for. */
  hear: (request: ProxyRequest) => Promise<void>;
};

/** A proxy that can be watched. It keeps no process alive. */
export interface AnnouncedPresence {
  /** Something is different: whoever watches is told soon, once for all that changes meanwhile. */
  changed(): void;
  close(): Promise<void>;
}

const mostWatchers = 16;
const longestAskBytes = 1_024;
const mostUnreadBytes = 1024 * 1024;
const gatherMs = 100;
/** Some things change without anybody noticing: a token that another process renewed. */
const repeatMs = 10_000;

/**
 * Listens where watchers look.
 *
 * @throws {Error} the system's own, when there can be no socket
 */
export async function announcePresence(options: AnnouncedOptions): Promise<AnnouncedPresence> {
  const { directory, platform, pid, tell, hear } = options;
  const name = `${pid}-${randomBytes(platform === 'win32' ? 16 : 6).toString('hex')}`;
  const { file, hidden } = presenceSocket(directory, name, platform);
  const watchers = new Set<Socket>();
  let last = '';
  let gathering: NodeJS.Timeout | undefined;
  let repeating: NodeJS.Timeout | undefined;

  const server = createServer((socket) => {
    socket.unref();
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      watchers.delete(socket);
      if (watchers.size === 0) clearInterval(repeating);
    });
    eachLine(socket, longestAskBytes, (line) => void answer(socket, line));
  });
  server.maxConnections = mostWatchers;

  async function answer(socket: Socket, line: string): Promise<void> {
    const asked = readAsked(line);
    if (asked === 'watch') {
      watchers.add(socket);
      clearInterval(repeating);
      repeating = setInterval(() => void publish(), repeatMs).unref();
      say(socket, { proxy: await tell() });
    } else if (asked) {
      await hear(asked).catch(() => undefined); // Whatever failed is told as the proxy's state.
      say(socket, { heard: asked });
    }
  }

  async function publish(): Promise<void> {
    gathering = undefined;
    const proxy = await tell();
    const text = JSON.stringify(proxy);
    if (text === last) return;
    last = text;
    for (const watcher of watchers) say(watcher, { proxy });
  }

  await listening(server, hidden);
  if (platform === 'win32') await writeFile(file, '', { flag: 'wx', mode: 0o600 });
  else {
    await chmod(hidden, 0o600);
    // Seen only now: a socket that does not listen yet looks like one of a dead process.
    await rename(hidden, file);
  }
  void sweepPresence(directory, platform);

  return {
    changed() {
      if (watchers.size > 0) gathering ??= setTimeout(() => void publish(), gatherMs).unref();
    },
    async close() {
      clearTimeout(gathering);
      clearInterval(repeating);
      server.close();
      for (const watcher of watchers) watcher.destroy();
      await rm(file, { force: true });
    },
  };
}

function say(socket: Socket, said: Said): void {
  if (socket.writableLength > mostUnreadBytes) return void socket.destroy();
  if (!socket.destroyed) socket.write(`${JSON.stringify(said)}\n`);
}

async function listening(server: Server, address: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, () => resolve());
  });
  server.removeAllListeners('error').on('error', () => undefined);
  server.unref();
}
