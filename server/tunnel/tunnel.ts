import { UpstreamError, type UpstreamAnswer, type UpstreamRequest } from '#gateway/upstream';
import type { AdmittedAgent } from './agent-directory.ts';
import { CallsUnderWay } from './calls-under-way.ts';
import { frameType, jsonFrame, readFrame, writeFrame, type Frame } from './frame.ts';
import { readCredit, readHead, readHello, readReset, type Hello } from './payloads.ts';
import { forwardedHeaders, isListening } from './request-headers.ts';
import { closeCode, type TunnelSocket } from './tunnel-socket.ts';
import { TunnelStream } from './tunnel-stream.ts';

const helloWithinMs = 10_000;
const pingEveryMs = 2000;
/** Looked at twice a second, this is seen by people within five seconds. */
const silentAfterMs = 4000;
const maxViolations = 100;
const maxStreamId = 0xffff_ffff;

/** What a tunnel stands on, and whom it tells. */
export interface TunnelPorts {
  readonly socket: TunnelSocket;
  /** Milliseconds that only grow. */
  readonly nowMs: () => number;
  /** What it serves has changed, or whether it does. */
  readonly changed: () => void;
  /** Callers whom nobody lets in any more, and of whom this end of it may not have heard. */
  readonly leftRecently: () => readonly string[];
  /** So many bytes more, or fewer, wait for callers. */
  readonly held: (bytes: number) => void;
  /** A call less is under way. */
  readonly freed: () => void;
  /** A call went wrong at the agent, in words for a page. */
  readonly troubled: (words: string) => void;
}

/** What goes through a tunnel: to which server, for whom. */
export interface TunnelRequest extends UpstreamRequest {
  readonly server: string;
  readonly caller: string;
  /** Told when nothing of the body is kept any more; perhaps more than once. */
  readonly sent?: () => void;
}

/** One connection of one agent: many requests at once, each a stream. `docs/tunnel.md` */
export class Tunnel {
  readonly agent: AdmittedAgent;
  readonly sinceMs: number;
  readonly #ports: TunnelPorts;
  readonly #streams = new Map<number, TunnelStream>();
  readonly #underWay = new CallsUnderWay();
  #lastId = 0;
  #violations = 0;
  #heardAtMs: number;
  #pingedAtMs: number;
  #hello: Hello | undefined;
  #bound: readonly string[];
  #isDraining = false;
  #isOver = false;

  constructor(agent: AdmittedAgent, ports: TunnelPorts) {
    this.agent = agent;
    this.#bound = agent.servers;
    this.#ports = ports;
    this.sinceMs = this.#heardAtMs = this.#pingedAtMs = ports.nowMs();
  }

  /** What the agent said of itself; `undefined` until it has. */
  get hello(): Hello | undefined {
    return this.#hello;
  }

  get isReady(): boolean {
    return this.#hello !== undefined && !this.#isDraining && !this.#isOver;
  }

  get calls(): number {
    return this.#underWay.calls;
  }

  /** How many streams are under way that only listen. */
  get listening(): number {
    return this.#underWay.listening;
  }

  serves(server: string): boolean {
    return this.#hello?.servers.some(({ name }) => name === server) ?? false;
  }

  /** Whether it may take one more request of this kind for this caller. */
  hasRoom(caller: string, listens: boolean): boolean {
    return this.#underWay.hasRoom(caller, listens);
  }

  /** @throws {UpstreamError} */
  async send(request: TunnelRequest): Promise<UpstreamAnswer> {
    const { method, server, caller, body, signal } = request;
    const ended = () => new DOMException('the call was ended', 'AbortError');
    if (signal.aborted) throw ended();
    const { socket, nowMs } = this.#ports;
    if (this.#lastId === maxStreamId) this.end(closeCode.goingAway, 'out of stream ids');
    if (this.#isOver) throw new UpstreamError('offline', 'the tunnel has ended');
    const id = (this.#lastId += 1);
    const listens = isListening(request);
    const abort = () => stream.end('cancelled', ended());
    const stream = new TunnelStream({
      id,
      isListening: listens,
      send: (frame) => socket.send(frame),
      sent: request.sent,
      held: (bytes) => this.#ports.held(bytes),
      over: () => {
        signal.removeEventListener('abort', abort);
        this.#streams.delete(id);
        this.#underWay.count(caller, listens, -1);
        this.#ports.freed();
        this.#endWhenDrained();
      },
      nowMs,
    });
    this.#streams.set(id, stream);
    this.#underWay.count(caller, listens, 1);
    signal.addEventListener('abort', abort);
    const headers = forwardedHeaders(request.headers);
    try {
      stream.open({ server, method, headers, caller }, body);
    } catch (cause) {
      stream.fail(new UpstreamError('broken', 'its headers are too long for a frame', { cause }));
    }
    return stream.answer;
  }

  /** The stream for whose caller the most bytes wait. */
  slowest(): TunnelStream | undefined {
    let slowest: TunnelStream | undefined;
    for (const stream of this.#streams.values()) {
      if (!slowest || stream.waitingBytes > slowest.waitingBytes) slowest = stream;
    }
    return slowest;
  }

  /** A binary message came. */
  got(message: Buffer): void {
    this.heard();
    if (this.#isOver) return;
    const frame = readFrame(message);
    if (!this.#hello && frame?.type !== frameType.hello) {
      return this.end(closeCode.violation, 'HELLO comes first');
    }
    if (!frame || !this.#take(frame)) this.#violated();
  }

  /** Anything at all came, a pong too. */
  heard(): void {
    this.#heardAtMs = this.#ports.nowMs();
  }

  /** Looks at the time: asks whether the agent is there, and gives up who does not answer. */
  look(nowMs: number): void {
    if (this.#isOver) return;
    if (nowMs - this.#heardAtMs > silentAfterMs) {
      this.#ports.troubled('it fell silent');
      this.#over('the agent fell silent');
      return this.#ports.socket.terminate();
    }
    if (!this.#hello && nowMs - this.sinceMs > helloWithinMs) {
      return this.end(closeCode.violation, 'no HELLO in time');
    }
    if (nowMs - this.#pingedAtMs < pingEveryMs) return;
    this.#pingedAtMs = nowMs;
    this.#ports.socket.ping();
    for (const stream of this.#streams.values()) {
      if (!stream.isLate(nowMs)) continue;
      stream.end('timeout', new UpstreamError('timeout', 'no answer in time'));
    }
  }

  /** Says what the dashboard bound to the agent, where that is news. */
  bind(servers: readonly string[]): void {
    if (servers.join() === this.#bound.join()) return;
    this.#bound = servers;
    if (this.#hello) this.#sayBound();
  }

  /** Says that nobody comes back for a caller; before HELLO there is nobody to tell. */
  left(caller: string): void {
    if (!this.#hello || this.#isOver) return;
    this.#ports.socket.send(jsonFrame(frameType.left, 0, { caller }));
  }

  /** Opens nothing any more, and ends once nothing is under way. */
  drain(): void {
    if (this.#isDraining || this.#isOver) return;
    this.#isDraining = true;
    this.#ports.socket.send(writeFrame(frameType.drain, 0));
    this.#endWhenDrained();
  }

  /** Ends the tunnel, and with an error whatever is under way in it. */
  end(code: number, reason: string): void {
    if (this.#isOver) return;
    if (code !== closeCode.goingAway) this.#ports.troubled(reason);
    this.#over(reason);
    this.#ports.socket.close(code, reason);
  }

  /** The connection is gone. */
  gone(): void {
    this.#over('the connection to the agent broke');
  }

  #take({ type, stream: id, payload }: Frame): boolean {
    if (id === 0) return type === frameType.hello && this.#greet(payload);
    const stream = this.#streams.get(id);
    // What crossed the end of its stream on the way is nobody's fault.
    if (!stream) return id <= this.#lastId && type >= frameType.head && type <= frameType.credit;
    switch (type) {
      case frameType.head:
        return stream.gotHead(readHead(payload));
      case frameType.data:
        return stream.gotData(payload);
      case frameType.end:
        return stream.gotEnd();
      case frameType.reset: {
        const reset = readReset(payload);
        if (reset.code !== 'cancelled') this.#ports.troubled(`${reset.code}: ${reset.detail}`);
        stream.gotReset(reset);
        return true;
      }
      case frameType.credit:
        return stream.gotCredit(readCredit(payload));
      default:
        return false;
    }
  }

  #greet(payload: Buffer): boolean {
    const hello = readHello(payload);
    if (!hello) {
      if (!this.#hello) this.end(closeCode.violation, 'its HELLO cannot be read');
      return false;
    }
    const isFirst = this.#hello === undefined;
    this.#hello = hello;
    if (isFirst) {
      this.#sayBound();
      for (const caller of this.#ports.leftRecently()) this.left(caller);
    }
    this.#ports.changed();
    return true;
  }

  #sayBound(): void {
    const { organization, name } = this.agent;
    const bound = { organization, agent: name, servers: this.#bound };
    this.#ports.socket.send(jsonFrame(frameType.bound, 0, bound));
  }

  #violated(): void {
    this.#violations += 1;
    if (this.#violations > maxViolations) {
      this.end(closeCode.violation, 'too many frames against the rules');
    }
  }

  #endWhenDrained(): void {
    if (this.#isDraining && this.#streams.size === 0) this.end(closeCode.goingAway, 'draining');
  }

  #over(why: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const stream of this.#streams.values()) {
      stream.fail(new UpstreamError('broken', `the call ended with its tunnel: ${why}`));
    }
    this.#ports.changed();
  }
}
