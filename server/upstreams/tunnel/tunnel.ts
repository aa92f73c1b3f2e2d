import { BriefMap } from 'latchkey-mcp/brief-map';
import {
  closeCode,
  frameType,
  isListening,
  jsonFrame,
  readBatch,
  readCredit,
  readFrame,
  readHead,
  readHello,
  readReset,
  requestHeaders,
  writeFrame,
  type Frame,
  type Hello,
  type TunnelNodes,
} from 'latchkey-mcp/tunnel-frames';
import { UpstreamError, type UpstreamAnswer, type UpstreamRequest } from '#gateway/upstream';
import type { AdmittedAgent } from '#db/agent-directory';
import { ActiveCalls } from './call-slots.ts';
import { TunnelStream } from './tunnel-stream.ts';

const helloTimeoutMs = 10_000;
const pingIntervalMs = 2000;
/** Checked twice a second, so that the dashboard shows an agent as offline within five seconds. */
const silenceTimeoutMs = 4000;
const maxViolations = 100;
const maxStreamId = 0xffff_ffff;

/** The WebSocket that carries a tunnel. */
export interface TunnelSocket {
  send(frame: Buffer): void;
  /** Joins the frames of a turn to BATCH messages from now on, because the other side can read such messages. */
  joinFrames(): void;
  ping(): void;
  /** Sends a close frame and soon after terminates the connection, even without an answer. */
  close(code: number, reason: string): void;
  terminate(): void;
}

export interface TunnelOptions {
  readonly socket: TunnelSocket;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /** Called when the tunnel became ready or ended, or the agent offers other servers. */
  readonly onChange: () => void;
  /** The nodes of this installation; `undefined` if there can be only one. */
  readonly nodes: () => TunnelNodes | undefined;
  /** Callers who lost access while this process of the agent may have been away. */
  readonly recentlyEndedCallers: () => readonly string[];
  /** Called with the change in the number of bytes that wait for callers. */
  readonly onBuffered: (bytes: number) => void;
  readonly onCallEnded: () => void;
  /** Called with a message for a page when the agent, or a call to it, failed. */
  readonly onError: (message: string) => void;
}

/** A request for one server behind the tunnel, on behalf of one caller. */
export interface TunnelRequest extends UpstreamRequest {
  readonly server: string;
  readonly caller: string;
  /** The process of the agent that has the session, if another node remembers it. */
  readonly process?: string | undefined;
  /** Called when no part of the body is in memory any more; perhaps more than once. */
  readonly onSent?: () => void;
}

/** One connection of an agent. It carries many requests at once, each as a stream. `docs/tunnel.md` */
export class Tunnel {
  readonly agent: AdmittedAgent;
  readonly sinceMs: number;
  readonly #options: TunnelOptions;
  readonly #streams = new BriefMap<number, TunnelStream>();
  readonly #activeCalls = new ActiveCalls();
  #lastId = 0;
  #violations = 0;
  #lastActivityAtMs: number;
  #lastPingAtMs: number;
  #hello: Hello | undefined;
  #bound: readonly string[];
  #sentBound = '';
  #isDraining = false;
  #isClosed = false;

  constructor(agent: AdmittedAgent, options: TunnelOptions) {
    this.agent = agent;
    this.#bound = agent.servers;
    this.#options = options;
    this.sinceMs = this.#lastActivityAtMs = this.#lastPingAtMs = options.nowMs();
  }

  /** The agent's description of itself; `undefined` until it arrives. */
  get hello(): Hello | undefined {
    return this.#hello;
  }

  get isReady(): boolean {
    return this.#hello !== undefined && !this.#isDraining && !this.#isClosed;
  }

  get calls(): number {
    return this.#activeCalls.calls;
  }

  /** How many streams are open that only listen. */
  get listening(): number {
    return this.#activeCalls.listening;
  }

  serves(server: string): boolean {
    return this.#hello?.servers.some(({ name }) => name === server) ?? false;
  }

  /** Whether the agent passes the keys of people on to this server: a command gets none. */
  passesKeys(server: string): boolean {
    const hello = this.#hello;
    if (hello?.keys !== true) return false;
    return hello.servers.some(({ name, kind }) => name === server && kind === 'http');
  }

  /** Whether `caller` may start another call, or another stream that only listens. */
  hasRoom(caller: string, listens: boolean): boolean {
    return this.#activeCalls.hasRoom(caller, listens);
  }

  /** @throws {UpstreamError} */
  async send(request: TunnelRequest): Promise<UpstreamAnswer> {
    const { method, server, caller, body, signal, key } = request;
    const ended = () => new DOMException('the call was ended', 'AbortError');
    if (signal.aborted) throw ended();
    const { socket, nowMs } = this.#options;
    if (this.#lastId === maxStreamId) this.end(closeCode.goingAway, 'out of stream ids');
    if (this.#isClosed) throw new UpstreamError('offline', 'the tunnel has ended');
    const id = (this.#lastId += 1);
    const listens = isListening(request);
    const abort = () => stream.end('cancelled', ended());
    const stream = new TunnelStream({
      id,
      isListening: listens,
      send: (frame) => socket.send(frame),
      onSent: request.onSent,
      onBuffered: (bytes) => this.#options.onBuffered(bytes),
      onClosed: () => {
        signal.removeEventListener('abort', abort);
        this.#streams.delete(id);
        this.#activeCalls.count(caller, listens, -1);
        this.#options.onCallEnded();
        this.#endWhenDrained();
      },
      nowMs,
    });
    this.#streams.set(id, stream);
    this.#activeCalls.count(caller, listens, 1);
    signal.addEventListener('abort', abort);
    const headers = requestHeaders(request.headers);
    try {
      stream.open({ server, method, headers, caller, key }, body);
    } catch (cause) {
      stream.fail(new UpstreamError('broken', 'its headers are too long for a frame', { cause }));
    }
    return stream.answer;
  }

  /** The stream with the most bytes that its caller has not read. */
  slowest(): TunnelStream | undefined {
    let slowest: TunnelStream | undefined;
    for (const stream of this.#streams.values()) {
      if (!slowest || stream.waitingBytes > slowest.waitingBytes) slowest = stream;
    }
    return slowest;
  }

  receive(message: Buffer): void {
    this.noteActivity();
    if (this.#isClosed) return;
    const frame = readFrame(message);
    if (!this.#hello && frame?.type !== frameType.hello) {
      return this.end(closeCode.violation, 'HELLO comes first');
    }
    if (frame?.type === frameType.batch) return this.#receiveBatch(frame);
    if (!frame || !this.#handle(frame)) this.#countViolation();
  }

  /** Notes that the agent is alive, because a message or a pong arrived. */
  noteActivity(): void {
    this.#lastActivityAtMs = this.#options.nowMs();
  }

  /** Pings the agent, and ends the tunnel or streams whose time is up. */
  checkTimeouts(nowMs: number): void {
    if (this.#isClosed) return;
    if (nowMs - this.#lastActivityAtMs > silenceTimeoutMs) {
      this.#options.onError('it fell silent');
      this.#close('the agent fell silent');
      return this.#options.socket.terminate();
    }
    if (!this.#hello && nowMs - this.sinceMs > helloTimeoutMs) {
      return this.end(closeCode.violation, 'no HELLO in time');
    }
    if (nowMs - this.#lastPingAtMs < pingIntervalMs) return;
    this.#lastPingAtMs = nowMs;
    this.#options.socket.ping();
    for (const stream of this.#streams.values()) {
      if (!stream.isTimedOut(nowMs)) continue;
      stream.end('timeout', new UpstreamError('timeout', 'no answer in time'));
    }
  }

  /** Tells the agent which servers the dashboard bound to it, if that has changed. */
  bind(servers: readonly string[]): void {
    this.#bound = servers;
    this.tellChanges();
  }

  /** Tells the agent which servers are bound to it, and which nodes are alive, if either has changed. */
  tellChanges(): void {
    if (!this.#hello || this.#isClosed) return;
    const { organization, name } = this.agent;
    const nodes = this.#options.nodes();
    const frame = jsonFrame(frameType.bound, 0, {
      organization,
      agent: name,
      servers: this.#bound,
      batches: true,
      ...nodes,
    });
    const text = frame.toString('latin1');
    if (text === this.#sentBound) return;
    this.#sentBound = text;
    this.#options.socket.send(frame);
  }

  /** Tells the agent that a caller lost access, unless the agent has not sent HELLO yet. */
  endCaller(caller: string): void {
    if (!this.#hello || this.#isClosed) return;
    this.#options.socket.send(jsonFrame(frameType.left, 0, { caller }));
  }

  /** Opens no more streams, and ends when the open ones are done. */
  drain(): void {
    if (this.#isDraining || this.#isClosed) return;
    this.#isDraining = true;
    this.#options.socket.send(writeFrame(frameType.drain, 0));
    this.#endWhenDrained();
  }

  /** Ends the tunnel; calls in progress fail. */
  end(code: number, reason: string): void {
    if (this.#isClosed) return;
    if (code !== closeCode.goingAway) this.#options.onError(reason);
    this.#close(reason);
    this.#options.socket.close(code, reason);
  }

  connectionLost(): void {
    this.#close('the connection to the agent broke');
  }

  #receiveBatch({ stream, payload }: Frame): void {
    const frames = stream === 0 ? readBatch(payload) : undefined;
    if (!frames) return this.#countViolation();
    for (const frame of frames) {
      if (this.#isClosed) return;
      if (!this.#handle(frame)) this.#countViolation();
    }
  }

  #handle({ type, stream: id, payload }: Frame): boolean {
    if (id === 0) return type === frameType.hello && this.#onHello(payload);
    const stream = this.#streams.get(id);
    // A frame that was sent before the agent learned that its stream ended is not a protocol error.
    if (!stream) return id <= this.#lastId && type >= frameType.head && type <= frameType.credit;
    switch (type) {
      case frameType.head:
        return stream.onHead(readHead(payload));
      case frameType.data:
        return stream.onData(payload);
      case frameType.end:
        return stream.onEnd();
      case frameType.reset: {
        const reset = readReset(payload);
        if (reset.code !== 'cancelled') this.#options.onError(`${reset.code}: ${reset.detail}`);
        stream.onReset(reset);
        return true;
      }
      case frameType.credit:
        return stream.onCredit(readCredit(payload));
      default:
        return false;
    }
  }

  #onHello(payload: Buffer): boolean {
    const hello = readHello(payload);
    if (!hello) {
      if (!this.#hello) this.end(closeCode.violation, 'its HELLO cannot be read');
      return false;
    }
    const isFirst = this.#hello === undefined;
    this.#hello = hello;
    if (hello.batches) this.#options.socket.joinFrames();
    if (isFirst) {
      this.tellChanges();
      for (const caller of this.#options.recentlyEndedCallers()) this.endCaller(caller);
    }
    this.#options.onChange();
    return true;
  }

  #countViolation(): void {
    this.#violations += 1;
    if (this.#violations > maxViolations) {
      this.end(closeCode.violation, 'too many frames against the rules');
    }
  }

  #endWhenDrained(): void {
    if (this.#isDraining && this.#streams.size === 0) this.end(closeCode.goingAway, 'draining');
  }

  #close(reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const stream of this.#streams.values()) {
      stream.fail(new UpstreamError('broken', `the call ended with its tunnel: ${reason}`));
    }
    this.#options.onChange();
  }
}
