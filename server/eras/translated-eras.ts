import type { Clock } from '#clock/clock';
import type { EraFaces, FacedCall } from '#gateway/era-faces';
import type { Era } from '#gateway/era';
import { endUpstreamSession } from '#gateway/end-upstream-session';
import { wholeBody } from '#gateway/event-stream';
import { legacyHeaders } from '#gateway/forwarded-headers';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import type { Asker } from './asker.ts';
import { discardAnswer } from './discard-answer.ts';
import { discover } from './discover.ts';
import { KnownEras, type Spoken } from './known-eras.ts';
import { LegacyFace } from './legacy-face.ts';
import { readMessage, stringAt, type Message } from './message.ts';
import { ModernFace } from './modern-face.ts';
import { modernVersion } from './envelope.ts';

const maxInitializeBytes = 64 * 1024;

/** Statuses with which an upstream refuses what it does not know. */
const unknown: ReadonlySet<number> = new Set([400, 404, 405, 406, 415]);

/**
 * Upstreams as ones of whichever era their callers speak. An upstream that speaks that era gets the caller's
 * own bytes; only one that refuses it is spoken to in the other era. Which that is, is found out once: a
 * caller of the older era tries by its handshake, for one of the modern era the upstream is asked.
 *
 * MCP 2026-07-28 versioning
 */
export class TranslatedEras implements EraFaces {
  readonly #known: KnownEras;
  readonly #modern: ModernFace;
  readonly #legacy = new LegacyFace();
  /** Being asked just now, by owner: what comes of it is theirs, as an account that is not connected. */
  readonly #asking = new Map<string, Promise<Spoken | undefined>>();

  constructor(clock: Clock) {
    this.#known = new KnownEras(clock);
    this.#modern = new ModernFace(clock);
  }

  facing(era: Era, call: FacedCall): Upstream {
    const { upstream, owner, admission } = call;
    const { scopes, server } = admission;
    const asker: Asker = {
      upstream,
      owner,
      scopes,
      // Nearly all calls are between two of one era, where nobody asks for it.
      get way() {
        return JSON.stringify([server, scopes]);
      },
    };
    const send =
      era === 'modern'
        ? (request: UpstreamRequest) => this.#sendModern(request, call, asker)
        : (request: UpstreamRequest) => this.#sendLegacy(request, call, asker);
    return { send };
  }

  keeps(owner: string): boolean {
    return this.#modern.keeps(owner);
  }

  endOf(owner: string): void {
    this.#modern.endOf(owner);
  }

  async close(): Promise<void> {
    this.#legacy.close();
    await this.#modern.close();
  }

  async #sendModern(
    request: UpstreamRequest,
    call: FacedCall,
    asker: Asker,
  ): Promise<UpstreamAnswer> {
    const { server } = call.admission;
    const spoken = this.#known.spoken(server) ?? (await this.#ask(call));
    if (spoken === 'legacy') return this.#translated(request, call, asker);
    const answer = await call.upstream.send(request);
    const isDoubtful = unknown.has(answer.status) && this.#known.mayDoubt(server);
    if (!isDoubtful || (await this.#ask(call)) !== 'legacy') return answer;
    // Since it was asked last the upstream has become one of the older era, and refused this request.
    await discardAnswer(answer);
    return this.#translated(request, call, asker);
  }

  async #translated(
    request: UpstreamRequest,
    { admission: { server }, upstream }: FacedCall,
    asker: Asker,
  ): Promise<UpstreamAnswer> {
    const answer = await this.#modern.send(request, asker);
    if (answer) return answer;
    this.#known.learn(server, { spoken: 'neither' });
    return upstream.send(request);
  }

  /** What the upstream speaks; `undefined` when it cannot say now. An owner asks once, however many of their calls wait. */
  async #ask({ upstream, owner, admission: { server } }: FacedCall): Promise<Spoken | undefined> {
    const asked = this.#asking.get(owner);
    if (asked) return asked;
    const asking = discover(upstream).then(({ outcome }): Spoken | undefined => {
      if (outcome === 'unclear') return undefined;
      const spoken = outcome === 'modern' ? 'modern' : 'legacy';
      this.#known.learn(server, { spoken });
      return spoken;
    });
    this.#asking.set(owner, asking);
    try {
      return await asking;
    } finally {
      this.#asking.delete(owner);
    }
  }

  async #sendLegacy(
    request: UpstreamRequest,
    call: FacedCall,
    asker: Asker,
  ): Promise<UpstreamAnswer> {
    const { upstream } = call;
    const sessionId = request.headers['mcp-session-id'];
    if (this.#legacy.holds(sessionId)) return this.#legacy.send(request, asker);
    const initialize = sessionId === undefined ? initializeIn(request) : undefined;
    return initialize
      ? this.#shakeHands(request, initialize, { call, asker })
      : upstream.send(request);
  }

  async #shakeHands(
    request: UpstreamRequest,
    initialize: Message,
    { call, asker }: { call: FacedCall; asker: Asker },
  ): Promise<UpstreamAnswer> {
    const { upstream, admission } = call;
    const { server } = admission;
    const { signal } = request;
    const opened = async () => {
      const answer = await this.#legacy.initialize(initialize, asker, signal);
      if (answer) this.#known.learn(server, { isModernOnly: true, spoken: 'modern' });
      else this.#known.forget(server);
      return answer;
    };
    const wasModernOnly = this.#known.isModernOnly(server);
    const known = wasModernOnly ? await opened() : undefined;
    if (known) return known;
    const answer = await whole(await upstream.send(request));
    if (!refuses(answer) || wasModernOnly) return answer;
    const translated = await opened();
    if (translated && answer.sessionId !== undefined) {
      const headers = legacyHeaders({}, answer.sessionId);
      await endUpstreamSession(upstream, headers).catch(() => undefined);
    }
    return translated ?? answer;
  }
}

function initializeIn({ method, body }: UpstreamRequest): Message | undefined {
  if (method !== 'POST' || !body || body.length > maxInitializeBytes) return undefined;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const message = bytes.includes('"initialize"') ? readMessage(bytes) : undefined;
  return message?.envelope.method === 'initialize' ? message : undefined;
}

/** The same answer, its JSON read to its end. */
async function whole(answer: UpstreamAnswer): Promise<UpstreamAnswer> {
  const isJson = answer.mediaType === 'application/json';
  return isJson ? { ...answer, body: await wholeBody(answer.body) } : answer;
}

/** Whether an upstream does not take this handshake. Some of the modern era answer it, with a revision that has none. */
function refuses({ status, mediaType, body }: UpstreamAnswer): boolean {
  if (unknown.has(status)) return true;
  const isRead = status === 200 && mediaType === 'application/json' && body instanceof Uint8Array;
  const message = isRead ? readMessage(body) : undefined;
  if (message?.envelope.kind !== 'response') return false;
  const version = stringAt(message, 'result', 'protocolVersion');
  return version === undefined || version >= modernVersion;
}
