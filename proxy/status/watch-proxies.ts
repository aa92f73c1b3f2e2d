import { watch, type FSWatcher } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { eachLine, parseEvent, type StatusRequest, type ProxyRequest } from './status-protocol.ts';
import {
  addressOf,
  isStatusFile,
  statusDirectory,
  isDeadCode,
  removeStale,
} from './status-directory.ts';
import type { RunningProxy } from './running-proxy.ts';

/** The running proxies of this user on this host. */
export interface ProxyWatch {
  /** Those that have sent a snapshot, the oldest first. */
  proxies(): RunningProxy[];

  /** Resolves when each proxy that was running at the start has sent a snapshot, or failed to. */
  ready(): Promise<void>;

  /** All proxies now, and again after each change, until `signal` aborts or the watch is closed. */
  changes(signal: AbortSignal): AsyncGenerator<RunningProxy[], void>;

  /** Resolves at the next change, and when `signal` aborts. */
  next(signal: AbortSignal): Promise<void>;

  /** Sends a request to the matching proxies; resolves with how many acknowledged it. */
  ask(request: ProxyRequest, matches: (proxy: RunningProxy) => boolean): Promise<number>;

  close(): void;
}

export type WatchOptions = {
  directory: string;
  platform: NodeJS.Platform;
};

/** File system notifications may fail, for example on network file systems. */
const scanIntervalMs = 3_000;
/** How long a proxy may take to answer: it may be stopped, or busy. */
const answerTimeoutMs = 5_000;
const maxEventBytes = 256 * 1024;

type PendingRequest = { request: ProxyRequest; done: () => void };
type Watched = { socket: Socket; proxy?: RunningProxy; pending: Set<PendingRequest> };

/** Watches the proxies of this user that keep their state in `stateDirectory`. */
export async function watchOwnProxies(
  stateDirectory: string,
  platform: NodeJS.Platform,
): Promise<ProxyWatch> {
  const location = { stateDirectory, platform, userId: userInfo().uid };
  return watchProxies({ directory: await statusDirectory(location), platform });
}

/** Connects to every proxy whose socket appears in `directory`; sockets of dead processes are removed. */
export function watchProxies({ directory, platform }: WatchOptions): ProxyWatch {
  const watched = new Map<string, Watched>();
  const listeners = new Set<() => void>();
  const life = new AbortController();
  const connecting = new Set<Promise<void>>();

  const changed = () => listeners.forEach((listener) => listener());
  const proxies = () =>
    [...watched.values()]
      .flatMap(({ proxy }) => proxy ?? [])
      .sort((one, other) => one.startedAt - other.startedAt || one.pid - other.pid);

  /** Resolves with its first snapshot, or once it cannot send one. */
  async function follow(file: string): Promise<void> {
    const socket = connect(addressOf(file, platform));
    const one: Watched = { socket, pending: new Set() };
    watched.set(file, one);
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, answerTimeoutMs).unref();
      const settle = () => {
        clearTimeout(late);
        resolve();
      };
      socket.on('connect', () => send(socket, 'watch'));
      socket.on('error', (error: NodeJS.ErrnoException) => {
        if (isDeadCode(error.code)) void removeStale(file, platform);
      });
      socket.on('close', () => {
        watched.delete(file);
        for (const { done } of one.pending) done();
        settle();
        if (one.proxy && !life.signal.aborted) changed();
      });
      eachLine(socket, maxEventBytes, (line) => {
        const event = parseEvent(line);
        if (!event) return;
        if ('acknowledged' in event) {
          for (const { request, done } of one.pending) if (request === event.acknowledged) done();
          return;
        }
        one.proxy = event.proxy;
        settle();
        changed();
      });
    });
  }

  /** Follows proxies that have appeared since the last scan. */
  async function scan(): Promise<void> {
    const names = await readdir(directory).catch((): string[] => []);
    if (life.signal.aborted) return;
    for (const name of names.filter(isStatusFile)) {
      const file = join(directory, name);
      if (watched.has(file)) continue;
      const opened = follow(file).finally(() => connecting.delete(opened));
      connecting.add(opened);
    }
  }

  async function scanAndFollow(): Promise<void> {
    await scan();
    await Promise.all(connecting);
  }

  const first = scanAndFollow();
  const timer = setInterval(() => void scan(), scanIntervalMs).unref();
  const notifications = watchDirectory(directory, () => void scan());

  return {
    proxies,
    ready: () => first,
    async *changes(signal) {
      const ended = AbortSignal.any([signal, life.signal]);
      let wake: () => void = () => undefined;
      let hasChanged = false;
      const listener = () => {
        hasChanged = true;
        wake();
      };
      listeners.add(listener);
      ended.addEventListener('abort', listener, { once: true });
      try {
        await first;
        while (!ended.aborted) {
          hasChanged = false;
          yield proxies();
          if (!hasChanged && !ended.aborted)
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
        }
      } finally {
        listeners.delete(listener);
        ended.removeEventListener('abort', listener);
      }
    },
    async next(signal) {
      await new Promise<void>((resolve) => {
        if (signal.aborted) return resolve();
        const done = () => {
          listeners.delete(done);
          signal.removeEventListener('abort', done);
          resolve();
        };
        listeners.add(done);
        signal.addEventListener('abort', done, { once: true });
      });
    },
    async ask(request, matches) {
      await scanAndFollow();
      const asked = [...watched.values()]
        .filter(({ proxy }) => proxy && matches(proxy))
        .map(
          async ({ socket, pending }) =>
            new Promise<boolean>((resolve) => {
              const settle = (isAcknowledged: boolean) => {
                clearTimeout(late);
                pending.delete(sent);
                resolve(isAcknowledged);
              };
              const late = setTimeout(() => settle(false), answerTimeoutMs).unref();
              const sent: PendingRequest = { request, done: () => settle(!socket.destroyed) };
              pending.add(sent);
              send(socket, request);
            }),
        );
      return (await Promise.all(asked)).filter(Boolean).length;
    },
    close() {
      life.abort();
      clearInterval(timer);
      notifications?.close();
      for (const { socket } of watched.values()) socket.destroy();
    },
  };
}

function send(socket: Socket, ask: StatusRequest): void {
  socket.write(`${JSON.stringify({ ask })}\n`);
}

function watchDirectory(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, { persistent: false }, changed);
    return watcher.on('error', () => watcher.close());
  } catch {
    return undefined; // The scan every few seconds finds them as well.
  }
}
