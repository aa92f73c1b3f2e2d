import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import {
  frameType,
  jsonFrame,
  readBound,
  readFrame,
  readLeft,
  readOpen,
  readReset,
  type Bound,
  type Hello,
} from 'latchkey-mcp/tunnel-frames';
import { type Responder, servedStream, type ServedStream } from './served-stream.ts';

/**
 * Why there is no tunnel. `refused`: the server does not accept the key. `forbidden`: it does not accept the connection.
 * `protocol`: not a Latchkey server, or an incompatible version. `busy`: try later. `unreadable`: the key cannot be read.
 * `unreachable`: no connection. Messages contain no secrets.
 */
export class TunnelError extends Error {
  override readonly name = 'TunnelError';
  readonly code:
    | 'refused'
    | 'forbidden'
    | 'protocol'
    | 'busy'
    | 'unreadable'
    | 'unreachable'
    | 'aborted';
  readonly remedy: string;
  readonly retryAfterSeconds: number;

  constructor(
    code: TunnelError['code'],
    message: string,
    {
      remedy = '',
      retryAfterSeconds = 0,
      ...options
    }: ErrorOptions & { remedy?: string; retryAfterSeconds?: number } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The connection that carries a tunnel. */
export interface TunnelSocket {
  /** Resolves when another frame can be sent, or when the connection is gone. */
  send(frame: Buffer): Promise<void>;

  /**
   * Resolves when the server has received everything sent so far, and we have received everything that it had sent by then.
   * Also resolves when the connection is gone.
   */
  settled(): Promise<void>;

  /** Closes the connection, and terminates it soon after if the server does not answer. RFC 6455 §7.4 */
  close(code: number, reason: string): void;

  /** Ends the connection without a closing handshake. */
  terminate(): void;
}

/** What a connection reports. */
export type SocketEvents = {
  frame: (message: Buffer) => void;
  /** Something arrived, such as a ping. */
  alive: () => void;
  /** The connection has ended. Called once. */
  closed: (code: number, reason: string) => void;
};

/** Connects with the current key. @throws {TunnelError} */
export type Dial = (events: SocketEvents, signal: AbortSignal) => Promise<TunnelSocket>;

/** Why a tunnel ended. */
export type TunnelEnd = { code: number; reason: string };

export interface Tunnel {
  /** To be called by the connection. */
  readonly events: SocketEvents;

  /** Sends our greeting over the new connection. */
  begin(socket: TunnelSocket): void;

  /** Sends a changed greeting. */
  hello(hello: Hello): void;

  /** The number of open requests, except streams that have no end of their own. */
  readonly calls: number;

  /**
   * Announces to the server that this tunnel serves nothing any more. Resolves when it has received the answers to all those
   * requests, including requests that it sent before it read this.
   */
  leave(): Promise<void>;

  /** Resolves when the server has sent which servers are bound to this agent. */
  readonly greeted: Promise<void>;
  /** Resolves when the server asks for a new connection. */
  readonly drained: Promise<void>;
  readonly ended: Promise<TunnelEnd>;
  end(code: number, reason: string): void;
}

export type TunnelPorts = {
  responder: Responder;
  hello: Hello;
  maxBodyBytes: number;
  clock: Clock;
  log: Log;
  bound: (bound: Bound) => void;
  /** Called when a caller is gone. */
  left: (caller: string) => void;
};

/** After this long without any frame, the server is considered gone. */
const silentSeconds = 5;
const maxStreams = 8_192;

/** Our end of one connection to the server. `docs/tunnel.md` */
export function tunnel(ports: TunnelPorts): Tunnel {
  const { responder, maxBodyBytes, clock, log } = ports;
  const streams = new Map<number, ServedStream>();
  const drained = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<TunnelEnd>();
  const greeted = Promise.withResolvers<void>();
  const ending = new AbortController();
  let isLeaving = false;
  let socket: TunnelSocket | undefined;
  let greeting = ports.hello;
  let lastId = 0;
  let silentFor = 0;
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
    if (id <= lastId) return log.warn('the server opened a stream twice', { stream: id });
    lastId = id;
    const opening = readOpen(payload);
    const code = opening ? (streams.size < maxStreams ? undefined : 'busy') : 'broken';
    if (!opening || code) return void send(jsonFrame(frameType.reset, id, { code, detail: '' }));
    const ours = { id, send, responder, maxBodyBytes, onEnd: () => endStream(id) };
    streams.set(id, servedStream(opening, ours));
  }

  /** Frames about the tunnel itself. Newer servers may send types that we do not know. */
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
    silentFor = 0;
    const frame = readFrame(message);
    if (!frame) return log.warn('a frame is malformed');
    const { type, stream: id, payload } = frame;
    if (id === 0) return takeOwn(type, payload);
    if (type === frameType.open) return open(id, payload);
    // The stream has ended; this frame was on its way.
    const stream = streams.get(id);
    if (!stream) return;
    if (type === frameType.data) stream.gotData(payload);
    else if (type === frameType.end) stream.gotEnd();
    else if (type === frameType.credit) stream.gotCredit(payload);
    else if (type === frameType.reset) {
      log.debug('a call was ended by the server', { stream: id, code: readReset(payload).code });
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
    if (ending.signal.aborted) return;
    ending.abort();
    for (const stream of streams.values()) stream.cut();
    ended.resolve(end);
  }

  /** Counts seconds by timer, so that a computer's sleep does not count as silence of the server. */
  async function watch(): Promise<void> {
    while (!ending.signal.aborted) {
      await clock.sleep(1_000, ending.signal);
      silentFor += 1;
      if (silentFor <= silentSeconds || ending.signal.aborted) continue;
      socket?.terminate();
      finish({ code: 1006, reason: 'the server stopped responding' });
    }
  }

  return {
    events: {
      frame: take,
      alive: () => (silentFor = 0),
      closed: (code, reason) => finish({ code, reason }),
    },
    begin(connected) {
      socket = connected;
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
    ended: ended.promise,
    end(code, reason) {
      socket?.close(code, reason);
      finish({ code, reason });
    },
  };
}
