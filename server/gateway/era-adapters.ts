import type { Target } from '#model/endpoints';
import type { Clock, EpochSeconds } from '#model/clock';
import { LimitedMap } from '#model/limited-map';
import type { Era } from 'latchkey-mcp/headers';
import { type Message, readMessage, stringAt } from 'latchkey-mcp/message';
import { modernVersion } from 'latchkey-mcp/translation';
import { discardAnswer, endFailedHandshake, wholeBody } from './answers.ts';
import { LegacyAdapter } from './legacy-adapter.ts';
import { ModernAdapter } from './modern-adapter.ts';
import type { AdaptedCall } from './call.ts';
import { upstreamLocation } from '#model/upstream-kinds';
import { messageIn, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';
import { discover } from './upstream-handshake.ts';

const maxInitializeBytes = 64 * 1024;

/** Statuses with which an upstream refuses a request that it does not know. */
const unknown: ReadonlySet<number> = new Set([400, 404, 405, 406, 415]);

/**
 * Sends requests to upstreams for callers of either era. An upstream that speaks the caller's era gets the caller's
 * own bytes; for an upstream that refuses this era, requests and answers are translated. The era of an upstream is
 * detected by the handshake of a legacy caller, or with `server/discover` for a modern one, and then remembered.
 *
 * MCP 2026-07-28 versioning
 */
export class EraAdapters {
  readonly #known: KnownEras;
  readonly #modern: ModernAdapter;
  readonly #legacy = new LegacyAdapter();
  /** Detections in progress, by owner, because the outcome may depend on the owner's account at the upstream. */
  readonly #asking = new Map<string, Promise<Spoken | undefined>>();

  /** `instance` identifies this process where several nodes share a database. */
  constructor(clock: Clock, instance?: string) {
    this.#known = new KnownEras(clock);
    this.#modern = new ModernAdapter(clock, instance);
  }

  /** Sends a request of a caller of `era` to the upstream of its call, translated if the upstream speaks only the other era. */
  send(era: Era, request: UpstreamRequest, call: AdaptedCall): Promise<UpstreamAnswer> {
    return era === 'modern' ? this.#sendModern(request, call) : this.#sendLegacy(request, call);
  }

  keeps(owner: string): boolean {
    return this.#modern.links.keeps(owner);
  }

  endOf(owner: string): void {
    this.#modern.links.endOf(owner);
  }

  async close(): Promise<void> {
    this.#legacy.close();
    await this.#modern.links.close();
  }

  #sendModern(request: UpstreamRequest, call: AdaptedCall): Promise<UpstreamAnswer> {
    const { target, upstream } = call;
    // A collection always speaks the modern era.
    if (target.upstream.kind === 'collection') return upstream.send(request);
    const known = this.#known.spoken(target);
    if (known) return this.#sendAs(known, request, call);
    return this.#ask(call).then((spoken) => this.#sendAs(spoken, request, call));
  }

  #sendAs(
    spoken: Spoken | undefined,
    request: UpstreamRequest,
    call: AdaptedCall,
  ): Promise<UpstreamAnswer> {
    if (spoken === 'legacy') return this.#translated(request, call);
    return call.upstream.send(request).then((answer) => {
      const isDoubtful = unknown.has(answer.status) && this.#known.mayDoubt(call.target);
      return isDoubtful ? this.#doubted(answer, request, call) : answer;
    });
  }

  async #doubted(
    answer: UpstreamAnswer,
    request: UpstreamRequest,
    call: AdaptedCall,
  ): Promise<UpstreamAnswer> {
    if ((await this.#ask(call)) !== 'legacy') return answer;
    // The upstream has changed to the legacy era since it was last asked, so it refused this request.
    await discardAnswer(answer);
    return this.#translated(request, call);
  }

  async #translated(request: UpstreamRequest, call: AdaptedCall): Promise<UpstreamAnswer> {
    const answer = await this.#modern.send(request, call);
    if (answer) return answer;
    this.#known.learn(call.target, { spoken: 'neither' });
    return call.upstream.send(request);
  }

  /** Detects what the upstream speaks; `undefined` if that is not possible now. All waiting calls of an owner share one detection. */
  async #ask({ upstream, owner, target }: AdaptedCall): Promise<Spoken | undefined> {
    const asked = this.#asking.get(owner);
    if (asked) return asked;
    const asking = discover(upstream).then(({ outcome }): Spoken | undefined => {
      if (outcome === 'unclear') return undefined;
      const spoken = outcome === 'modern' ? 'modern' : 'legacy';
      this.#known.learn(target, { spoken });
      return spoken;
    });
    this.#asking.set(owner, asking);
    try {
      return await asking;
    } finally {
      this.#asking.delete(owner);
    }
  }

  #sendLegacy(request: UpstreamRequest, call: AdaptedCall): Promise<UpstreamAnswer> {
    const { upstream } = call;
    const sessionId = request.headers['mcp-session-id'];
    if (this.#legacy.holds(sessionId)) return this.#legacy.send(request, call);
    const initialize = sessionId === undefined ? initializeIn(request) : undefined;
    return initialize ? this.#initialize(request, initialize, call) : upstream.send(request);
  }

  async #initialize(
    request: UpstreamRequest,
    initialize: Message,
    call: AdaptedCall,
  ): Promise<UpstreamAnswer> {
    const { upstream, target } = call;
    const { signal } = request;
    const opened = async () => {
      const answer = await this.#legacy.initialize(initialize, call, signal);
      if (answer) this.#known.learn(target, { isModernOnly: true, spoken: 'modern' });
      else this.#known.forget(target);
      return answer;
    };
    const wasModernOnly = this.#known.isModernOnly(target);
    const known = wasModernOnly ? await opened() : undefined;
    if (known) return known;
    const begun = await upstream.send(request);
    try {
      const answer = await whole(begun);
      if (!refuses(answer) || wasModernOnly) return answer;
      const translated = await opened();
      if (translated) await endFailedHandshake(upstream, begun);
      return translated ?? answer;
    } catch (error) {
      await endFailedHandshake(upstream, begun);
      throw error;
    }
  }
}

function initializeIn(request: UpstreamRequest): Message | undefined {
  const message = messageIn(request);
  const isShort = message && message.body.length <= maxInitializeBytes;
  return isShort && message.envelope.method === 'initialize' ? message : undefined;
}

/** The same answer, with a JSON body read to its end. */
async function whole(answer: UpstreamAnswer): Promise<UpstreamAnswer> {
  const isJson = answer.mediaType === 'application/json';
  return isJson ? { ...answer, body: await wholeBody(answer.body) } : answer;
}

/** Whether an upstream refuses the handshake. Some modern upstreams answer it, but with a revision that has no handshake. */
function refuses({ status, mediaType, body }: UpstreamAnswer): boolean {
  if (unknown.has(status)) return true;
  const isRead = status === 200 && mediaType === 'application/json' && body instanceof Uint8Array;
  const message = isRead ? readMessage(body) : undefined;
  if (message?.envelope.kind !== 'response') return false;
  const version = stringAt(message, 'result', 'protocolVersion');
  return version === undefined || version >= modernVersion;
}

/** The era that an upstream speaks, as detected for modern callers. With `neither`, their requests are sent unchanged. */
export type Spoken = 'modern' | 'legacy' | 'neither';

const maxServers = 10_000;
const relearnSeconds = 3600;
const neitherSeconds = 60;
const doubtSeconds = 30;

interface Known {
  spoken?: Spoken;
  /** Whether the upstream refused a legacy handshake when it was last asked, and spoke the modern era. */
  isModernOnly?: boolean;
  learntAt: EpochSeconds;
}

/**
 * The eras that upstreams speak, remembered for at most an hour, because servers are replaced and updated. A target
 * that is pointed to another location counts as a new one.
 */
class KnownEras {
  readonly #known = new LimitedMap<string, Known>(maxServers);
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  spoken(target: Target): Spoken | undefined {
    return this.#of(target)?.spoken;
  }

  isModernOnly(target: Target): boolean {
    return this.#of(target)?.isModernOnly ?? false;
  }

  learn(target: Target, learnt: Omit<Known, 'learntAt'>): void {
    const name = nameOf(target);
    const before = this.#of(target);
    this.#known.set(name, { ...before, ...learnt, learntAt: this.#clock.now() });
  }

  forget(target: Target): void {
    this.#known.delete(nameOf(target));
  }

  /** Whether the known era is old enough to ask the upstream again. */
  mayDoubt(target: Target): boolean {
    const known = this.#of(target);
    return known !== undefined && known.learntAt + doubtSeconds <= this.#clock.now();
  }

  #of(target: Target): Known | undefined {
    const known = this.#known.get(nameOf(target));
    if (!known) return undefined;
    const seconds = known.spoken === 'neither' ? neitherSeconds : relearnSeconds;
    return known.learntAt + seconds > this.#clock.now() ? known : undefined;
  }
}

/** The results of `nameOf`, kept because every call needs one. */
const names = new WeakMap<Target, string>();

function nameOf(target: Target): string {
  const known = names.get(target);
  if (known !== undefined) return known;
  const name = `${target.id} ${upstreamLocation(target.upstream)}`;
  names.set(target, name);
  return name;
}
