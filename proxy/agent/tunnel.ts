import { BriefMap } from 'latchkey-mcp/brief-map';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import {
  frameType,
  jsonFrame,
  readBatch,
  readBound,
  readFrame,
  readLeft,
  readOpen,
  readReset,
  type Bound,
  type Frame,
  type Hello,
} from 'latchkey-mcp/tunnel-frames';
import { type Responder, servedStream, type ServedStream } from './served-stream.ts';

/**
 * Why there is no tunnel. `refused`: the server does not accept the key. `forbidden`: it does not accept the connection.
 * `protocol`: not a Latchkey server, or an incompatible version. `busy`: try later. `unreadable`: the key cannot be read.
 * `unreachable`: no connection. `aborted`: we gave up connecting. Messages contain no secrets.
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

  /** From now on, joins small frames of the same event loop turn in BATCH messages. Call it once the server has announced `batches`. */
  joinFrames(): void;

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

/** The events that a connection reports. */
export type SocketEvents = {
  frame: (message: Buffer) => void;
  /** A ping or a pong has arrived. */
  alive: () => void;
  /** The connection has ended. Called once. */
  closed: (code: number, reason: string) => void;
};

/** Connects with the current key. @throws {TunnelError} */
export type Dial = (events: SocketEvents, signal: AbortSignal) => Promise<TunnelSocket>;

export type TunnelEnd = { code: number; reason: string };

export type TunnelPorts = {
  responder: Responder;
  hello: Hello;
  maxBodyBytes: number;
  clock: Clock;
  log: Log;
  bound: (bound: Bound) => void;
  /** Called when a caller has lost access. */
  left: (caller: string) => void;
};

/** If nothing arrives for longer than this, the server counts as gone. */
const silentSeconds = 5;
const maxStreams = 8_192;

/** Our end of one connection to the server. `docs/tunnel.md` */
export class Tunnel {
  readonly #ports: TunnelPorts;
  readonly #streams = new BriefMap<number, ServedStream>();
  readonly #greeted = Promise.withResolvers<void>();
  readonly #drained = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<TunnelEnd>();
  readonly #ending = new AbortController();
  #socket: TunnelSocket | undefined;
  #greeting: Hello;
  #isLeaving = false;
  #lastId = 0;
  /** The number of open streams, not counting listening streams, which stay open until they are closed. */
  #calls = 0;
  #silentFor = 0;
  /** Called when no call is open any more. */
  #waiting: (() => void)[] = [];

  /** Resolves when the server has announced which servers are bound to this agent (BOUND). */
  readonly greeted = this.#greeted.promise;
  /** Resolves when the server asks for a new connection. */
  readonly drained = this.#drained.promise;
  readonly ended = this.#ended.promise;

  /** The connection calls these functions. */
  readonly events: SocketEvents = {
    frame: (message) => this.#take(message),
    alive: () => (this.#silentFor = 0),
    closed: (code, reason) => this.#finish({ code, reason }),
  };

  constructor(ports: TunnelPorts) {
    this.#ports = ports;
    this.#greeting = ports.hello;
  }

  /** Sends our greeting over the new connection. */
  begin(connected: TunnelSocket): void {
    this.#socket = connected;
    void this.#send(jsonFrame(frameType.hello, 0, this.#greeting));
    void this.#watch();
  }

  /** Sends a changed greeting. */
  hello(hello: Hello): void {
    this.#greeting = hello;
    if (!this.#isLeaving) void this.#send(jsonFrame(frameType.hello, 0, hello));
  }

  /** The number of open requests, not counting listening streams. */
  get calls(): number {
    return this.#calls;
  }

  /**
   * Announces to the server that this tunnel no longer serves anything. Resolves when the server has received all answers, including
   * those to requests that it sent before it read the announcement.
   */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    void this.#send(jsonFrame(frameType.hello, 0, { ...this.#greeting, servers: [] }));
    await this.#socket?.settled();
    await this.#idle();
    await this.#socket?.settled();
  }

  end(code: number, reason: string): void {
    this.#socket?.close(code, reason);
    this.#finish({ code, reason });
  }

  readonly #send = async (frame: Buffer): Promise<void> => {
    await this.#socket?.send(frame);
  };

  #take(message: Buffer): void {
    const { log } = this.#ports;
    this.#silentFor = 0;
    const frame = readFrame(message);
    const isBatch = frame?.type === frameType.batch && frame.stream === 0;
    const frames = isBatch ? readBatch(frame.payload) : frame && [frame];
    if (!frames) return log.warn('a frame is malformed');
    for (const one of frames) this.#takeFrame(one);
  }

  #takeFrame({ type, stream: id, payload }: Frame): void {
    const { log } = this.#ports;
    if (id === 0) return this.#takeOwn(type, payload);
    if (type === frameType.open) return this.#open(id, payload);
    // Without an entry, the stream has ended, and this frame was sent before the server knew.
    const stream = this.#streams.get(id);
    if (!stream) return;
    if (type === frameType.data) stream.gotData(payload);
    else if (type === frameType.end) stream.gotEnd();
    else if (type === frameType.credit) stream.gotCredit(payload);
    else if (type === frameType.reset) {
      log.debug('a call was ended by the server', { stream: id, code: readReset(payload).code });
      stream.cut();
    }
  }

  /** Takes a frame about the tunnel itself. Ignores unknown types, which newer servers may send. */
  #takeOwn(type: number, payload: Buffer): void {
    if (type === frameType.drain) return this.#drained.resolve();
    if (type === frameType.left) {
      const caller = readLeft(payload);
      return caller === undefined ? undefined : this.#ports.left(caller);
    }
    const bound = type === frameType.bound ? readBound(payload) : undefined;
    if (!bound) return;
    if (bound.batches) this.#socket?.joinFrames();
    this.#ports.bound(bound);
    this.#greeted.resolve();
  }

  #open(id: number, payload: Buffer): void {
    const { responder, maxBodyBytes, log } = this.#ports;
    if (id <= this.#lastId) return log.warn('the server opened a stream twice', { stream: id });
    this.#lastId = id;
    const send = this.#send;
    const opening = readOpen(payload);
    const code = opening ? (this.#streams.size < maxStreams ? undefined : 'busy') : 'broken';
    if (!opening || code) return void send(jsonFrame(frameType.reset, id, { code, detail: '' }));
    const ours = { id, send, responder, maxBodyBytes, onEnd: () => this.#endStream(id) };
    const stream = servedStream(opening, ours);
    this.#streams.set(id, stream);
    if (!stream.isListening) this.#calls += 1;
  }

  #endStream(id: number): void {
    if (this.#streams.get(id)?.isListening === false) this.#calls -= 1;
    this.#streams.delete(id);
    if (this.#calls > 0) return;
    for (const wake of this.#waiting) wake();
    this.#waiting = [];
  }

  async #idle(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.calls === 0) resolve();
      else this.#waiting.push(resolve);
    });
  }

  /** Counts seconds by timer, so that a computer's sleep does not count as silence of the server. */
  async #watch(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      await this.#ports.clock.sleep(1_000, signal);
      this.#silentFor += 1;
      if (this.#silentFor <= silentSeconds || signal.aborted) continue;
      this.#socket?.terminate();
      this.#finish({ code: 1006, reason: 'the server stopped responding' });
    }
  }

  #finish(end: TunnelEnd): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    for (const stream of this.#streams.values()) stream.cut();
    this.#ended.resolve(end);
  }
}
