import { watch, type FSWatcher } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { eachLine } from './each-line.ts';
import { addressOf, isPresenceFile } from './presence-socket.ts';
import { readSaid, type Asked, type ProxyRequest } from './presence-words.ts';
import type { RunningProxy } from './running-proxy.ts';
import { isDeadCode, removeStale } from './sweep-presence.ts';

/** The proxies that run on this machine for this user, for as long as somebody watches. */
export interface PresenceWatch {
  /** All that have told of themselves, the oldest first. */
  proxies(): RunningProxy[];

  /** Resolves when everybody who was there at the beginning has told, or cannot. */
  ready(): Promise<void>;

  /** What there is now, then again after every change, until `signal` aborts or the watch is closed. */
  changes(signal: AbortSignal): AsyncGenerator<RunningProxy[], void>;

  /** Resolves at the next change, and when `signal` aborts. */
  next(signal: AbortSignal): Promise<void>;

  /** Asks those proxies for something; resolves with how many have done it. */
  ask(request: ProxyRequest, wanted: (proxy: RunningProxy) => boolean): Promise<number>;

  close(): void;
}

export type WatchPresenceOptions = {
  directory: string;
  platform: NodeJS.Platform;
};

/** The system's notices may fail, on network file systems for one. */
const lookMs = 3_000;
/** How long a proxy may take to answer: it may be stopped, or busy. */
const patienceMs = 5_000;
const longestSaidBytes = 256 * 1024;

type Wish = { request: ProxyRequest; done: () => void };
type Watched = { socket: Socket; proxy?: RunningProxy; wishes: Set<Wish> };

/** Connects to every proxy whose socket appears in `directory`; what dead ones left is removed. */
export function watchPresence({ directory, platform }: WatchPresenceOptions): PresenceWatch {
  const watched = new Map<string, Watched>();
  const listeners = new Set<() => void>();
  const life = new AbortController();
  const meetings = new Set<Promise<void>>();

  const changed = () => listeners.forEach((listener) => listener());
  const proxies = () =>
    [...watched.values()]
      .flatMap(({ proxy }) => proxy ?? [])
      .sort((one, other) => one.startedAt - other.startedAt || one.pid - other.pid);

  /** Resolves once it has told of itself, or is known not to. */
  async function meet(file: string): Promise<void> {
    const socket = connect(addressOf(file, platform));
    const one: Watched = { socket, wishes: new Set() };
    watched.set(file, one);
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, patienceMs).unref();
      const met = () => {
        clearTimeout(late);
        resolve();
      };
      socket.on('connect', () => say(socket, 'watch'));
      socket.on('error', (error: NodeJS.ErrnoException) => {
        if (isDeadCode(error.code)) void removeStale(file, platform);
      });
      socket.on('close', () => {
        watched.delete(file);
        for (const { done } of one.wishes) done();
        met();
        if (one.proxy && !life.signal.aborted) changed();
      });
      eachLine(socket, longestSaidBytes, (line) => {
        const said = readSaid(line);
        if (!said) return;
        if ('heard' in said) {
          for (const { request, done } of one.wishes) if (request === said.heard) done();
          return;
        }
        one.proxy = said.proxy;
        met();
        changed();
      });
    });
  }

  /** Whoever is there already is not waited for by whoever comes. */
  async function look(): Promise<void> {
    const names = await readdir(directory).catch((): string[] => []);
    if (life.signal.aborted) return;
    for (const name of names.filter(isPresenceFile)) {
      const file = join(directory, name);
      if (watched.has(file)) continue;
      const meeting = meet(file).finally(() => meetings.delete(meeting));
      meetings.add(meeting);
    }
  }

  async function lookAndMeet(): Promise<void> {
    await look();
    await Promise.all(meetings);
  }

  const first = lookAndMeet();
  const timer = setInterval(() => void look(), lookMs).unref();
  const notices = noticesOf(directory, () => void look());

  return {
    proxies,
    ready: () => first,
    async *changes(signal) {
      const ended = AbortSignal.any([signal, life.signal]);
      let wake: () => void = () => undefined;
      let news = false;
      const listener = () => {
        news = true;
        wake();
      };
      listeners.add(listener);
      ended.addEventListener('abort', listener, { once: true });
      try {
        await first;
        while (!ended.aborted) {
          news = false;
          yield proxies();
          if (!news && !ended.aborted)
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
    async ask(request, wanted) {
      await lookAndMeet();
      const asked = [...watched.values()]
        .filter(({ proxy }) => proxy && wanted(proxy))
        .map(
          async ({ socket, wishes }) =>
            new Promise<boolean>((resolve) => {
              const settle = (isHeard: boolean) => {
                clearTimeout(late);
                wishes.delete(wish);
                resolve(isHeard);
              };
              const late = setTimeout(() => settle(false), patienceMs).unref();
              const wish: Wish = { request, done: () => settle(!socket.destroyed) };
              wishes.add(wish);
              say(socket, request);
            }),
        );
      return (await Promise.all(asked)).filter(Boolean).length;
    },
    close() {
      life.abort();
      clearInterval(timer);
      notices?.close();
      for (const { socket } of watched.values()) socket.destroy();
    },
  };
}

function say(socket: Socket, ask: Asked): void {
  socket.write(`${JSON.stringify({ ask })}\n`);
}

function noticesOf(directory: string, noticed: () => void): FSWatcher | undefined {
  try {
    const notices = watch(directory, { persistent: false }, noticed);
    return notices.on('error', () => notices.close());
  } catch {
    return undefined; // Looking every few seconds serves, too.
  }
}
