import { UpstreamError, type Upstream, type UpstreamAnswer } from '#gateway/upstream';
import type { AgentPresence } from './agent-presence.ts';
import { busyAnswer } from './busy-answer.ts';
import { HeldBytes } from './held-bytes.ts';
import { LastPlaces } from './last-places.ts';
import { LeftCallers } from './left-callers.ts';
import { isListening } from './request-headers.ts';
import { maxCalls } from './calls-under-way.ts';
import type { Tunnel, TunnelRequest } from './tunnel.ts';
import { WaitingCallers, type Waiter } from './waiting-callers.ts';

const maxPlaces = 20_000;
const patienceMs = 30_000;
/** What all its tunnels together may make this process keep of requests, and of answers. */
const maxRequestBytes = 64 * 1024 * 1024;
const maxAnswerBytes = 64 * 1024 * 1024;
/** What holds no more than this is not worth giving up for others. */
const shortBytes = 64 * 1024;

export interface ConnectedAgentPorts {
  readonly nowMs: () => number;
}

/**
 * All tunnels of one agent: which of them a request goes to, and who waits for one. Sessions and callers come
 * back to the process that they were at, also after its tunnel was replaced.
 */
export class ConnectedAgent {
  readonly #ports: ConnectedAgentPorts;
  readonly #tunnels = new Map<Tunnel, string>();
  readonly #waiting = new WaitingCallers<Tunnel | UpstreamError>();
  readonly #sessions = new LastPlaces(maxPlaces);
  readonly #callers = new LastPlaces(maxPlaces);
  readonly #left = new LeftCallers();
  readonly #requests = new HeldBytes(maxRequestBytes);
  #answerBytes = 0;
  #made = 0;
  #calls = 0;
  #failed = 0;
  #shown = '';
  #trouble: { readonly at: number; readonly words: string } | undefined;

  constructor(ports: ConnectedAgentPorts) {
    this.#ports = ports;
  }

  get tunnels(): readonly Tunnel[] {
    return [...this.#tunnels.keys()];
  }

  add(tunnel: Tunnel): void {
    this.#made += 1;
    this.#tunnels.set(tunnel, `tunnel ${this.#made}`);
  }

  remove(tunnel: Tunnel): void {
    this.#tunnels.delete(tunnel);
    this.serve();
  }

  /** Something went wrong, as the pages tell it. */
  troubled(at: number, words: string): void {
    this.#trouble = { at, words };
  }

  /**
   * So many bytes more, or fewer, of answers wait for callers. Where that is too much, whoever reads slowest is given up:
   * the others are not to pay for them.
   */
  held(bytes: number): void {
    this.#answerBytes += bytes;
    while (this.#answerBytes > maxAnswerBytes) {
      const streams = this.tunnels.flatMap((tunnel) => tunnel.slowest() ?? []);
      const [slowest] = streams.toSorted((a, b) => b.waitingBytes - a.waitingBytes);
      if (!slowest) return;
      const why = 'its answer was not read, and too much of others waited beside it';
      slowest.giveUp(new UpstreamError('broken', why));
    }
  }

  /** Nobody comes back for a caller: every process of the agent is told, those that are away once they are back. */
  left(caller: string): void {
    if (!this.#left.left(caller, this.#ports.nowMs())) return;
    for (const tunnel of this.tunnels) tunnel.left(caller);
  }

  leftRecently(): readonly string[] {
    return this.#left.recent(this.#ports.nowMs());
  }

  /** Room was made, or a tunnel. */
  serve(): void {
    const some = () => this.tunnels.some(({ isReady, calls }) => isReady && calls < maxCalls);
    // Whose agent has left need not wait for their time to be over.
    const isFree = () => some() || !this.tunnels.some(({ isReady }) => isReady);
    if (this.#waiting.size > 0) this.#waiting.serve(isFree);
  }

  look(nowMs: number): void {
    for (const tunnel of this.tunnels) tunnel.look(nowMs);
    this.#waiting.look(nowMs);
  }

  /** Whether there are more or fewer calls than when this was asked last. */
  hasMoved(): boolean {
    const before = this.#shown;
    const { callsUnderWay, listening, waiting, calls } = this.presence();
    this.#shown = [callsUnderWay, listening, waiting, calls].join();
    return before !== this.#shown;
  }

  presence(): AgentPresence {
    const ready = this.tunnels.filter(({ isReady }) => isReady);
    const hellos = ready.flatMap(({ hello }) => hello ?? []);
    const servers = new Map(hellos.flatMap((hello) => hello.servers.map((of) => [of.name, of])));
    return {
      isOnline: ready.length > 0,
      tunnels: ready.length,
      versions: [...new Set(hellos.map(({ version }) => version))].toSorted(),
      servers: [...servers.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      callsUnderWay: ready.reduce((sum, { calls }) => sum + calls, 0),
      listening: ready.reduce((sum, { listening }) => sum + listening, 0),
      waiting: this.#waiting.size,
      calls: this.#calls,
      failed: this.#failed,
      trouble: this.#trouble,
    };
  }

  /** A server of this agent for one caller, as an upstream. */
  upstream(server: string, caller: string): Upstream {
    return { send: (request) => this.#send({ ...request, server, caller }) };
  }

  async #send(request: TunnelRequest): Promise<UpstreamAnswer> {
    this.#calls += 1;
    const { caller, body, signal } = request;
    // A session that is ended for one who left says nothing of coming back.
    if (request.method !== 'DELETE') this.#left.asked(caller);
    const bytes = body?.length ?? 0;
    const given = bytes > shortBytes ? new AbortController() : undefined;
    const sent = this.#requests.hold(caller, bytes, given && (() => given.abort()));
    if (!sent) return busyAnswer;
    try {
      const both = given && AbortSignal.any([signal, given.signal]);
      const asked = { ...request, sent, ...(both && { signal: both }) };
      const tunnel = this.#find(asked);
      const answer = await (tunnel ? this.#through(tunnel, asked) : this.#wait(asked));
      if (answer === busyAnswer) sent();
      return answer;
    } catch (error) {
      sent();
      // The agent has not heard all of it, so it did nothing.
      if (given?.signal.aborted && !signal.aborted) return busyAnswer;
      if (error instanceof UpstreamError) this.#failed += 1;
      throw error;
    }
  }

  async #through(tunnel: Tunnel, request: TunnelRequest): Promise<UpstreamAnswer> {
    const answer = await tunnel.send(request);
    this.#remember(request, answer, tunnel);
    return answer;
  }

  /** `undefined` when all that could take it are busy. @throws {UpstreamError} when there is none */
  #find(request: TunnelRequest): Tunnel | undefined {
    const { server, caller } = request;
    const ready = this.tunnels.filter(({ isReady }) => isReady);
    if (ready.length === 0) throw new UpstreamError('offline', 'the agent is not connected');
    const able = ready.filter((tunnel) => tunnel.serves(server));
    if (able.length === 0) {
      throw new UpstreamError('unreachable', `the agent does not serve '${server}'`);
    }
    const listens = isListening(request);
    const inSession = this.#at(able, this.#sessions.get(sessionOf(request) ?? ''));
    const free = (inSession.length > 0 ? inSession : able).filter((tunnel) =>
      tunnel.hasRoom(caller, listens),
    );
    const known = this.#at(free, this.#callers.get(caller));
    return leastBusy(known.length > 0 ? known : free);
  }

  #at(tunnels: readonly Tunnel[], place: string | undefined): Tunnel[] {
    if (place === undefined) return [];
    return tunnels.filter((tunnel) => this.#placeOf(tunnel) === place);
  }

  #placeOf(tunnel: Tunnel): string {
    return tunnel.hello?.instance ?? this.#tunnels.get(tunnel) ?? '';
  }

  /** Until there is room; who finds none, or waits too long, is told to come again. */
  #wait(request: TunnelRequest): Promise<UpstreamAnswer> {
    const { caller, signal } = request;
    const through = (tunnel: Tunnel) => this.#through(tunnel, request);
    return new Promise((resolve, reject) => {
      const settle = () => signal.removeEventListener('abort', abort);
      const waiter: Waiter<Tunnel | UpstreamError> = {
        caller,
        untilMs: this.#ports.nowMs() + patienceMs,
        find: () => this.#findOrWhyNot(request),
        found(place) {
          settle();
          if (place instanceof UpstreamError) reject(place);
          // The place must be taken before the next one looks for one.
          else resolve(through(place));
        },
        late() {
          settle();
          resolve(busyAnswer);
        },
      };
      const abort = () => {
        this.#waiting.remove(waiter);
        reject(new DOMException('the call was ended', 'AbortError'));
      };
      if (!this.#waiting.add(waiter)) return resolve(busyAnswer);
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
    });
  }

  #findOrWhyNot(request: TunnelRequest): Tunnel | UpstreamError | undefined {
    try {
      return this.#find(request);
    } catch (error) {
      if (error instanceof UpstreamError) return error;
      throw error;
    }
  }

  #remember(request: TunnelRequest, { sessionId }: UpstreamAnswer, tunnel: Tunnel): void {
    const place = this.#placeOf(tunnel);
    this.#callers.set(request.caller, place);
    const opened = sessionId === undefined ? undefined : sessionName(request, sessionId);
    if (opened !== undefined) this.#sessions.set(opened, place);
    const used = sessionOf(request);
    if (used !== undefined && request.method === 'DELETE') this.#sessions.forget(used);
  }
}

/** Two processes, or two callers, may have come upon the same id. */
function sessionName({ server, caller }: TunnelRequest, sessionId: string): string {
  return `${server} ${caller} ${sessionId}`;
}

function sessionOf(request: TunnelRequest): string | undefined {
  const id = request.headers['mcp-session-id'];
  return id === undefined ? undefined : sessionName(request, id);
}

function leastBusy(tunnels: readonly Tunnel[]): Tunnel | undefined {
  let best: Tunnel | undefined;
  for (const tunnel of tunnels) if (!best || tunnel.calls < best.calls) best = tunnel;
  return best;
}
