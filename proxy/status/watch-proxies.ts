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
  return new ProxyWatch({ directory: await statusDirectory(location), platform });
}

/** Connects to every proxy whose socket appears in the directory; sockets of dead processes are removed. */
export class ProxyWatch {
  readonly #options: WatchOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #listeners = new Set<() => void>();
  readonly #life = new AbortController();
  /** Proxies that have not sent a snapshot yet. */
  readonly #connecting = new Set<Promise<void>>();
  readonly #first: Promise<void>;
  readonly #timer: NodeJS.Timeout;
  readonly #notifications: FSWatcher | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#first = this.#scanAndFollow();
    this.#timer = setInterval(() => void this.#scan(), scanIntervalMs).unref();
    this.#notifications = watchDirectory(options.directory, () => void this.#scan());
  }

  /** The proxies that have sent a snapshot, the oldest first. */
  proxies(): RunningProxy[] {
    return [...this.#watched.values()]
      .flatMap(({ proxy }) => proxy ?? [])
      .sort((one, other) => one.startedAt - other.startedAt || one.pid - other.pid);
  }

  /** Resolves when each proxy that was running at the start has sent a snapshot, or failed to. */
  ready(): Promise<void> {
    return this.#first;
  }

  /** All proxies now, and again after each change, until `signal` aborts or the watch is closed. */
  async *changes(signal: AbortSignal): AsyncGenerator<RunningProxy[], void> {
    const ended = AbortSignal.any([signal, this.#life.signal]);
    let wake: () => void = () => undefined;
    let hasChanged = false;
    const listener = () => {
      hasChanged = true;
      wake();
    };
    this.#listeners.add(listener);
    ended.addEventListener('abort', listener, { once: true });
    try {
      await this.#first;
      while (!ended.aborted) {
        hasChanged = false;
        yield this.proxies();
        if (!hasChanged && !ended.aborted)
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      this.#listeners.delete(listener);
      ended.removeEventListener('abort', listener);
    }
  }

  /** Resolves at the next change, and when `signal` aborts. */
  async next(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      if (signal.aborted) return resolve();
      const done = () => {
        this.#listeners.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#listeners.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  /** Sends a request to the matching proxies; resolves with how many acknowledged it. */
  async ask(request: ProxyRequest, matches: (proxy: RunningProxy) => boolean): Promise<number> {
    await this.#scanAndFollow();
    const asked = [...this.#watched.values()]
      .filter(({ proxy }) => proxy && matches(proxy))
      .map(async (one) => acknowledged(one, request));
    return (await Promise.all(asked)).filter(Boolean).length;
  }

  close(): void {
    this.#life.abort();
    clearInterval(this.#timer);
    this.#notifications?.close();
    for (const { socket } of this.#watched.values()) socket.destroy();
  }

  async #scanAndFollow(): Promise<void> {
    await this.#scan();
    await Promise.all(this.#connecting);
  }

  /** Follows proxies that have appeared since the last scan. */
  async #scan(): Promise<void> {
    const { directory } = this.#options;
    const names = await readdir(directory).catch((): string[] => []);
    if (this.#life.signal.aborted) return;
    for (const name of names.filter(isStatusFile)) {
      const file = join(directory, name);
      if (this.#watched.has(file)) continue;
      const opened = this.#follow(file).finally(() => this.#connecting.delete(opened));
      this.#connecting.add(opened);
    }
  }

  /** Follows a proxy. Resolves after its first snapshot, a failure or a timeout. */
  async #follow(file: string): Promise<void> {
    const { platform } = this.#options;
    const socket = connect(addressOf(file, platform));
    const one: Watched = { socket, pending: new Set() };
    this.#watched.set(file, one);
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
        this.#watched.delete(file);
        for (const { done } of one.pending) done();
        settle();
        if (one.proxy && !this.#life.signal.aborted) this.#announce();
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
        this.#announce();
      });
    });
  }

  #announce(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Sends a request to a proxy; resolves with whether the proxy acknowledged it. */
async function acknowledged({ socket, pending }: Watched, request: ProxyRequest): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (isAcknowledged: boolean) => {
      clearTimeout(late);
      pending.delete(sent);
      resolve(isAcknowledged);
    };
    const late = setTimeout(() => settle(false), answerTimeoutMs).unref();
    const sent: PendingRequest = { request, done: () => settle(!socket.destroyed) };
    pending.add(sent);
    send(socket, request);
  });
}

function send(socket: Socket, ask: StatusRequest): void {
  socket.write(`${JSON.stringify({ ask })}\n`);
}

function watchDirectory(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, { persistent: false }, changed);
    return watcher.on('error', () => watcher.close());
  } catch {
    return undefined; // The scan every few seconds finds changes as well.
  }
}
