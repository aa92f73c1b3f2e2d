import { abortSignal } from '#model/ending';
import { isListening } from 'latchkey-mcp/tunnel-frames';
import type { EpochSeconds } from '#model/clock';
import { UpstreamError, type Upstream, type UpstreamAnswer } from '#gateway/upstream';
import { LimitedMap } from '#model/limited-map';
import { maxCalls, WaitingCalls, type WaitingCall } from './call-slots.ts';
import { MemoryBudget } from './flow-control.ts';
import { busyAnswer } from './tunnel-stream.ts';
import type { Tunnel, TunnelRequest } from './tunnel.ts';

const maxSessions = 20_000;
const maxCallers = 20_000;
/** Longer than the minute for which an agent keeps its callers' state after a tunnel ended, because either side may notice late. */
const tellAgainMs = 90_000;
const waitTimeoutMs = 30_000;
/** How many bytes of requests, and of responses, this process buffers for all tunnels of an agent together. */
const maxRequestBytes = 64 * 1024 * 1024;
const maxAnswerBytes = 64 * 1024 * 1024;
/** The prefix of the name that this server invents for an agent process that sends none. */
const unnamed = 'unnamed process: tunnel ';
/** Evicting a request up to this length would free too little memory. */
const shortBytes = 64 * 1024;

/** The state of an agent at this moment, and what happened since this server started. */
export interface AgentPresence {
  readonly isOnline: boolean;
  /** How many tunnels are ready. */
  readonly tunnels: number;
  /** The versions of the agent program, over all tunnels. */
  readonly versions: readonly string[];
  /** The servers that the agent offers. */
  readonly servers: readonly { readonly name: string; readonly kind: string }[];
  readonly activeCalls: number;
  /** Streams that only listen. */
  readonly listening: number;
  /** Calls that wait for a slot. */
  readonly waiting: number;
  readonly calls: number;
  readonly failed: number;
  readonly lastError: { readonly at: EpochSeconds; readonly message: string } | undefined;
}

/** The state of one agent that is connected to several nodes. */
export function mergedPresence(presences: readonly AgentPresence[]): AgentPresence {
  const online = presences.filter(({ isOnline }) => isOnline);
  const servers = new Map(online.flatMap((one) => one.servers.map((of) => [of.name, of])));
  const sum = (
    of: 'tunnels' | 'activeCalls' | 'listening' | 'waiting' | 'calls' | 'failed',
  ): number => presences.reduce((total, one) => total + one[of], 0);
  const errors = presences.flatMap(({ lastError }) => lastError ?? []);
  return {
    isOnline: online.length > 0,
    tunnels: sum('tunnels'),
    versions: [...new Set(online.flatMap(({ versions }) => versions))].toSorted(),
    servers: [...servers.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    activeCalls: sum('activeCalls'),
    listening: sum('listening'),
    waiting: sum('waiting'),
    calls: sum('calls'),
    failed: sum('failed'),
    lastError: errors.toSorted((a, b) => b.at - a.at)[0],
  };
}

export const offlineAgent = mergedPresence([]);

export interface ConnectedAgentOptions {
  readonly nowMs: () => number;
}

/**
 * All tunnels of one agent: chooses the tunnel for a request, and queues requests when all are busy. The requests of a session
 * or caller always go to the same process of the agent, even after its tunnel was replaced.
 */
export class ConnectedAgent {
  readonly #options: ConnectedAgentOptions;
  readonly #tunnels = new Map<Tunnel, string>();
  readonly #waiting = new WaitingCalls<Tunnel | UpstreamError>();
  readonly #sessions = new LastInstances(maxSessions);
  readonly #callers = new LastInstances(maxCallers);
  readonly #knownCallers = new KnownCallers();
  readonly #requests = new MemoryBudget(maxRequestBytes);
  #answerBytes = 0;
  #tunnelCount = 0;
  #calls = 0;
  #failed = 0;
  #reported = '';
  #lastError: AgentPresence['lastError'];

  constructor(options: ConnectedAgentOptions) {
    this.#options = options;
  }

  get tunnels(): readonly Tunnel[] {
    return [...this.#tunnels.keys()];
  }

  add(tunnel: Tunnel): void {
    this.#tunnelCount += 1;
    this.#tunnels.set(tunnel, `${unnamed}${this.#tunnelCount}`);
  }

  remove(tunnel: Tunnel): void {
    this.#tunnels.delete(tunnel);
    this.serveWaiting();
  }

  get isOnline(): boolean {
    return this.tunnels.some(({ isReady }) => isReady);
  }

  /** Whether a tunnel takes new calls. A tunnel that its agent is leaving offers no server any more. */
  get takesCalls(): boolean {
    return this.tunnels.some(({ isReady, hello }) => isReady && hello?.servers.length !== 0);
  }

  /** The processes that take new calls. A process of an old agent has no name, and is not among them. */
  get processes(): readonly string[] {
    const takeCalls = this.tunnels.filter(
      ({ isReady, hello }) => isReady && hello?.servers.length !== 0,
    );
    return [...new Set(takeCalls.flatMap(({ hello }) => hello?.instance ?? []))];
  }

  /** The process that has a session, if it was opened through this node. */
  processOf(server: string, caller: string, sessionId: string): string | undefined {
    const found = this.#sessions.get(sessionName({ server, caller }, sessionId));
    return found?.startsWith(unnamed) ? undefined : found;
  }

  /** Stores a failure for display on pages. */
  noteError(at: EpochSeconds, message: string): void {
    this.#lastError = { at, message };
  }

  /**
   * Counts bytes of responses that wait for callers. Beyond the limit, the stream of the slowest reader is ended, so that it
   * does not slow down the others.
   */
  countBuffered(bytes: number): void {
    this.#answerBytes += bytes;
    while (this.#answerBytes > maxAnswerBytes) {
      const streams = this.tunnels.flatMap((tunnel) => tunnel.slowest() ?? []);
      const [slowest] = streams.toSorted((a, b) => b.waitingBytes - a.waitingBytes);
      if (!slowest) return;
      const why = 'its response was not read, and too much data was waiting';
      slowest.evict(new UpstreamError('broken', why));
    }
  }

  /** Tells every process of the agent that a caller lost access; those that are away are told when they return. */
  endCaller(caller: string): void {
    if (!this.#knownCallers.end(caller, this.#options.nowMs())) return;
    for (const tunnel of this.tunnels) tunnel.endCaller(caller);
  }

  recentlyEndedCallers(): readonly string[] {
    return this.#knownCallers.recentlyEnded(this.#options.nowMs());
  }

  /** Serves waiting calls, after a slot or a tunnel became free. */
  serveWaiting(): void {
    const hasSlot = () => this.tunnels.some(({ isReady, calls }) => isReady && calls < maxCalls);
    // If the agent has disconnected, the calls fail now instead of at their time limit.
    const isFree = () => hasSlot() || !this.tunnels.some(({ isReady }) => isReady);
    if (this.#waiting.size > 0) this.#waiting.serve(isFree);
  }

  checkTimeouts(nowMs: number): void {
    for (const tunnel of this.tunnels) tunnel.checkTimeouts(nowMs);
    this.#waiting.expire(nowMs);
  }

  /** Whether the numbers of calls have changed since this was called last. */
  haveCallsChanged(): boolean {
    const before = this.#reported;
    const { activeCalls, listening, waiting, calls } = this.presence();
    this.#reported = [activeCalls, listening, waiting, calls].join();
    return before !== this.#reported;
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
      activeCalls: ready.reduce((sum, { calls }) => sum + calls, 0),
      listening: ready.reduce((sum, { listening }) => sum + listening, 0),
      waiting: this.#waiting.size,
      calls: this.#calls,
      failed: this.#failed,
      lastError: this.#lastError,
    };
  }

  /** Returns a server of this agent as an upstream for one caller. `process` has the session, if another node remembers it. */
  upstream(server: string, caller: string, isProbe = false, process?: string): Upstream {
    return { send: (request) => this.#send({ ...request, server, caller, process }, isProbe) };
  }

  async #send(request: TunnelRequest, isProbe: boolean): Promise<UpstreamAnswer> {
    if (!isProbe) this.#calls += 1;
    const { caller, body, signal } = request;
    // A DELETE ends a session, also on behalf of a caller who lost access, so it proves no access.
    if (request.method !== 'DELETE') this.#knownCallers.noteCall(caller);
    const bytes = body?.length ?? 0;
    const eviction = bytes > shortBytes ? new AbortController() : undefined;
    const release = this.#requests.reserve(caller, bytes, eviction && (() => eviction.abort()));
    if (!release) return busyAnswer;
    try {
      const eitherSignal = eviction && AbortSignal.any([abortSignal(signal), eviction.signal]);
      const evictable = {
        ...request,
        onSent: release,
        ...(eitherSignal && { signal: eitherSignal }),
      };
      const tunnel = this.#find(evictable);
      const answer = await (tunnel ? this.#sendTo(tunnel, evictable) : this.#wait(evictable));
      if (answer === busyAnswer) release();
      return answer;
    } catch (error) {
      release();
      // The agent has not received the whole request, so it has done nothing.
      if (eviction?.signal.aborted && !signal.aborted) return busyAnswer;
      if (error instanceof UpstreamError && !isProbe) this.#failed += 1;
      throw error;
    }
  }

  async #sendTo(tunnel: Tunnel, request: TunnelRequest): Promise<UpstreamAnswer> {
    const answer = await tunnel.send(request);
    this.#remember(request, answer, tunnel);
    return answer;
  }

  /** `undefined` when all tunnels that could take the request are busy. @throws {UpstreamError} when there is none */
  #find(request: TunnelRequest): Tunnel | undefined {
    const { server, caller } = request;
    const ready = this.tunnels.filter(({ isReady }) => isReady);
    if (!this.takesCalls) throw new UpstreamError('offline', 'the agent is not connected');
    const able = ready.filter((tunnel) => tunnel.serves(server));
    if (able.length === 0) {
      throw new UpstreamError('not_served', `the agent does not serve '${server}'`);
    }
    const fit = request.key ? able.filter((tunnel) => tunnel.passesKeys(server)) : able;
    if (fit.length === 0) {
      const why = `the agent passes no keys of people to '${server}': it runs a command, or the agent is too old`;
      throw new UpstreamError('not_served', why, { detail: why });
    }
    const listens = isListening(request);
    const inSession = this.#at(
      fit,
      this.#sessions.get(sessionOf(request) ?? '') ?? request.process,
    );
    const free = (inSession.length > 0 ? inSession : fit).filter((tunnel) =>
      tunnel.hasRoom(caller, listens),
    );
    const known = this.#at(free, this.#callers.get(caller));
    return leastBusy(known.length > 0 ? known : free);
  }

  #at(tunnels: readonly Tunnel[], instance: string | undefined): Tunnel[] {
    if (instance === undefined) return [];
    return tunnels.filter((tunnel) => this.#instanceOf(tunnel) === instance);
  }

  #instanceOf(tunnel: Tunnel): string {
    return tunnel.hello?.instance ?? this.#tunnels.get(tunnel) ?? '';
  }

  /** Waits for a free slot; after too long, or when too many wait, the answer is `busyAnswer`. */
  #wait(request: TunnelRequest): Promise<UpstreamAnswer> {
    const { caller, signal } = request;
    const sendTo = (tunnel: Tunnel) => this.#sendTo(tunnel, request);
    return new Promise((resolve, reject) => {
      const settle = () => signal.removeEventListener('abort', abort);
      const call: WaitingCall<Tunnel | UpstreamError> = {
        caller,
        untilMs: this.#options.nowMs() + waitTimeoutMs,
        find: () => this.#findOrError(request),
        onFound(found) {
          settle();
          if (found instanceof UpstreamError) reject(found);
          // The slot must be taken before the next call looks for one.
          else resolve(sendTo(found));
        },
        onTimeout() {
          settle();
          resolve(busyAnswer);
        },
      };
      const abort = () => {
        this.#waiting.remove(call);
        reject(new DOMException('the call was ended', 'AbortError'));
      };
      if (!this.#waiting.add(call)) return resolve(busyAnswer);
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
    });
  }

  #findOrError(request: TunnelRequest): Tunnel | UpstreamError | undefined {
    try {
      return this.#find(request);
    } catch (error) {
      if (error instanceof UpstreamError) return error;
      throw error;
    }
  }

  #remember(request: TunnelRequest, { sessionId }: UpstreamAnswer, tunnel: Tunnel): void {
    const instance = this.#instanceOf(tunnel);
    this.#callers.set(request.caller, instance);
    const opened = sessionId === undefined ? undefined : sessionName(request, sessionId);
    if (opened !== undefined) this.#sessions.set(opened, instance);
    const used = sessionOf(request);
    if (used !== undefined && request.method === 'DELETE') this.#sessions.forget(used);
  }
}

/** Two processes, or two callers, may have sessions with the same id. */
function sessionName(
  { server, caller }: Pick<TunnelRequest, 'server' | 'caller'>,
  sessionId: string,
): string {
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

/** The instance that each key was last sent to. Beyond `max` keys, the least recently used is forgotten. */
export class LastInstances {
  readonly #instances: LimitedMap<string, string>;

  constructor(max: number) {
    this.#instances = new LimitedMap(max);
  }

  get(key: string): string | undefined {
    const instance = this.#instances.get(key);
    if (instance !== undefined) this.set(key, instance);
    return instance;
  }

  set(key: string, instance: string): void {
    this.#instances.set(key, instance);
  }

  forget(key: string): void {
    this.#instances.delete(key);
  }
}

/** The callers who used an agent, and which of them lost access. The least recent are forgotten. */
class KnownCallers {
  /** When each caller lost access; `undefined` for callers who have it. */
  readonly #callers = new Map<string, number | undefined>();
  /** How many have lost access. */
  #endedCount = 0;

  /** Notes that the caller has access, because one of its requests goes to the agent. */
  noteCall(caller: string): void {
    this.#forget(caller);
    this.#callers.set(caller, undefined);
    if (this.#callers.size <= maxCallers) return;
    const [oldest] = this.#callers.keys();
    if (oldest !== undefined) this.#forget(oldest);
  }

  /** Notes that the caller lost access. `false` if it never made a call, so that the agent has no state of it. */
  end(caller: string, nowMs: number): boolean {
    if (!this.#callers.has(caller)) return false;
    this.#forget(caller);
    this.#callers.set(caller, nowMs);
    this.#endedCount += 1;
    return true;
  }

  /** Callers who lost access while a process of the agent may have been away. */
  recentlyEnded(nowMs: number): string[] {
    if (this.#endedCount === 0) return [];
    const recent: string[] = [];
    for (const [caller, endedAtMs] of this.#callers) {
      if (endedAtMs === undefined) continue;
      if (endedAtMs + tellAgainMs >= nowMs) recent.push(caller);
      else this.#forget(caller);
    }
    return recent;
  }

  #forget(caller: string): void {
    if (this.#callers.get(caller) !== undefined) this.#endedCount -= 1;
    this.#callers.delete(caller);
  }
}
