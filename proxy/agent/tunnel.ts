import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { frameType, jsonFrame, readFrame } from './frame.ts';
import { readBound, readLeft, readOpen, readReset, type Bound } from './payloads.ts';
import type { Responder } from './responder.ts';
import { servedStream, type ServedStream } from './served-stream.ts';
import type { SocketHears, TunnelSocket } from './tunnel-socket.ts';

/** What the agent says of itself. */
export type Hello = {
  version: string;
  /** One for the life of this process. */
  instance: string;
  servers: readonly { name: string; kind: 'stdio' | 'http' }[];
};

/** Why a tunnel ended. */
export type TunnelEnd = { code: number; reason: string };

export interface Tunnel {
  readonly hears: SocketHears;

  /** The connection is there: says who we are. */
  begin(socket: TunnelSocket): void;

  /** What we are has changed. */
  hello(hello: Hello): void;

  /** How many requests are under way that have an end of their own. */
  readonly calls: number;

  /**
   * Says that nothing is served here any more. Resolves once every such request has its answer, those included that
   * crossed the words on their way, and the server has the last of them.
   */
  leave(): Promise<void>;

  /** Resolves once the server has said what is bound to us. */
  readonly greeted: Promise<void>;
  /** Resolves when the server wants to be dialled anew. */
  readonly drained: Promise<void>;
  readonly over: Promise<TunnelEnd>;
  end(code: number, reason: string): void;
}

export type TunnelPorts = {
  responder: Responder;
  hello: Hello;
  maxBodyBytes: number;
  clock: Clock;
  log: Log;
  bound: (bound: Bound) => void;
  /** Nobody comes back for a caller. */
  left: (caller: string) => void;
};

/** Who says nothing for so long is gone. */
const silentSeconds = 5;
const maxStreams = 8_192;

/** Our end of one connection to the server. `docs/tunnel.md` */
export function tunnel(ports: TunnelPorts): Tunnel {
  const { responder, maxBodyBytes, clock, log } = ports;
  const streams = new Map<number, ServedStream>();
  const drained = Promise.withResolvers<void>();
  const over = Promise.withResolvers<TunnelEnd>();
  const greeted = Promise.withResolvers<void>();
  const ended = new AbortController();
  let isLeaving = false;
  let socket: TunnelSocket | undefined;
  let greeting = ports.hello;
  let lastId = 0;
  let silent = 0;
  let waiting: (() => void)[] = [];

  const calls = () => [...streams.values()].filter(({ isListening }) => !isListening).length;

  async function send(frame: Buffer): Promise<void> {
    await socket?.send(frame);
  }

  function endStream(id: number): void {
    streams.delete(id);
    if (calls() > 0) return;
    for (const wake of waiting) wake();
    waiting = [];
  }

  function open(id: number, payload: Buffer): void {
    if (id <= lastId) return log.warn('a stream was opened twice', { stream: id });
    lastId = id;
    const opening = readOpen(payload);
    const code = opening ? (streams.size < maxStreams ? undefined : 'busy') : 'broken';
    if (!opening || code) return void send(jsonFrame(frameType.reset, id, { code, detail: '' }));
    const ours = { id, send, responder, maxBodyBytes, over: () => endStream(id) };
    streams.set(id, servedStream(opening, ours));
  }

  /** What is about the tunnel itself; a type that we do not know is of a newer server. */
  function takeOwn(type: number, payload: Buffer): void {
    if (type === frameType.drain) return drained.resolve();
    if (type === frameType.left) {
      const caller = readLeft(payload);
      return caller === undefined ? undefined : ports.left(caller);
    }
    const bound = type === frameType.bound ? readBound(payload) : undefined;
    if (!bound) return;
    ports.bound(bound);
    greeted.resolve();
  }

  function take(message: Buffer): void {
    silent = 0;
    const frame = readFrame(message);
    if (!frame) return log.warn('a frame cannot be read');
    const { type, stream: id, payload } = frame;
    if (id === 0) return takeOwn(type, payload);
    if (type === frameType.open) return open(id, payload);
    // What is not known has crossed the end of its stream on the way.
    const stream = streams.get(id);
    if (!stream) return;
    if (type === frameType.data) stream.gotData(payload);
    else if (type === frameType.end) stream.gotEnd();
    else if (type === frameType.credit) stream.gotCredit(payload);
    else if (type === frameType.reset) {
      log.debug('a call was ended by the server', { stream: id, code: readReset(payload) });
      stream.cut();
    }
  }

  async function idle(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (calls() === 0) resolve();
      else waiting.push(resolve);
    });
  }

  function finish(end: TunnelEnd): void {
    if (ended.signal.aborted) return;
    ended.abort();
    for (const stream of streams.values()) stream.cut();
    over.resolve(end);
  }

  /** Counts by turns of a second, so that a machine that slept or is slow is not taken for silence. */
  async function watch(): Promise<void> {
    while (!ended.signal.aborted) {
      await clock.sleep(1_000, ended.signal);
      silent += 1;
      if (silent <= silentSeconds || ended.signal.aborted) continue;
      socket?.terminate();
      finish({ code: 1006, reason: 'the server fell silent' });
    }
  }

  return {
    hears: {
      frame: take,
      alive: () => (silent = 0),
      closed: (code, reason) => finish({ code, reason }),
    },
    begin(made) {
      socket = made;
      void send(jsonFrame(frameType.hello, 0, greeting));
      void watch();
    },
    hello(hello) {
      greeting = hello;
      if (!isLeaving) void send(jsonFrame(frameType.hello, 0, hello));
    },
    get calls() {
      return calls();
    },
    async leave() {
      isLeaving = true;
      void send(jsonFrame(frameType.hello, 0, { ...greeting, servers: [] }));
      await socket?.settled();
      await idle();
      await socket?.settled();
    },
    greeted: greeted.promise,
    drained: drained.promise,
    over: over.promise,
    end(code, reason) {
      socket?.close(code, reason);
      finish({ code, reason });
    },
  };
}
