import type { EndSignal } from '#model/ending';
import type { Clock, EpochSeconds } from '#model/clock';
import { modernHeaders, postHeaders } from 'latchkey-mcp/headers';
import { type Envelope, withId, withMeta } from 'latchkey-mcp/message';
import { metaOf } from 'latchkey-mcp/translation';
import { discard, endFailedHandshake, endUpstreamSession, failure, send, sent } from './answers.ts';
import type { Awaitable } from '#model/awaitable';
import { underId } from './filters.ts';
import { parseAccept } from './read-message.ts';
import type { Forwarded } from './call.ts';
import { post, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';
import {
  discover,
  gatewayClient,
  handshakeHeaders,
  initialize,
  initializedNotification,
} from './upstream-handshake.ts';

interface PlainRequest extends LinkAsked {
  readonly body: Buffer;
  readonly envelope: Envelope;
  readonly signal: EndSignal;
  /** The result of `traceHeaders`. */
  readonly trace: Readonly<Record<string, string>>;
}

/**
 * Forwards a request without a handshake: a JSON-RPC body and a credential. The answer is 200 in JSON, whichever era the
 * upstream speaks; the gateway makes the handshake that the upstream needs.
 *
 * @throws {GatewayRefusal}
 */
export function forwardPlain(request: PlainRequest, links: PlainLinks): Promise<Forwarded> {
  const link = links.link(request);
  return link instanceof Promise
    ? link.then((made) => forwardOver(made, request, links))
    : forwardOver(link, request, links);
}

const plain = { accepts: parseAccept(undefined), isAlways200: true };

function forwardOver(
  link: PlainLink,
  request: PlainRequest,
  links: PlainLinks,
): Promise<Forwarded> {
  const { body, envelope, upstream, signal, key, trace } = request;
  if (link.era === 'modern') {
    const carried = withMeta({ body, envelope }, plainMeta);
    const modern = post(carried, modernHeaders(envelope, trace), signal);
    const ownId = ownIdOf(envelope, envelope.id);
    return sent(upstream, modern, (answer): Forwarded => ({ ...plain, answer, ownId }));
  }
  // Several plain requests share one session, where no two requests in progress may have the same id.
  const id = links.nextId();
  const message = { body, envelope };
  const unique = envelope.idSpan ? withId(message, id) : message;
  const ownId = ownIdOf(envelope, id);
  const restore = envelope.id === undefined ? undefined : underId(envelope.id);
  const requestOver = (over: LegacyPlainLink): UpstreamRequest => {
    const headers = { ...postHeaders, ...handshakeHeaders(over), ...trace };
    return post(unique, headers, signal);
  };
  const forwarded = (answer: UpstreamAnswer): Forwarded => ({ ...plain, answer, ownId, restore });
  return sent(upstream, requestOver(link), (answer) => {
    if (answer.status !== 404 || link.sessionId === undefined) return forwarded(answer);
    return again(answer);
  });

  /** The upstream forgot the session, so it did not execute the request: sends it again in a new session. */
  async function again(answer: UpstreamAnswer): Promise<Forwarded> {
    await discard(answer.body);
    links.forget(key, link);
    const renewed = await links.link(request);
    if (renewed.era === 'modern') throw failure(answer);
    return sent(upstream, requestOver(renewed), forwarded);
  }
}

/** The id that a result must have. Only requests have results. */
function ownIdOf({ kind }: Envelope, id: string | undefined): Forwarded['ownId'] {
  return kind === 'request' ? { id, isRequest: true } : undefined;
}

const confirmTimeoutMs = 30_000;
const idleSeconds = 300;

/** The members that a modern request must have in `params._meta`; the values are JSON text. MCP 2026-07-28 */
const plainMeta = metaOf(gatewayClient);

/** How the gateway speaks to an upstream on behalf of a caller that made no handshake. */
export type PlainLink =
  | { readonly era: 'modern' }
  | {
      readonly era: 'legacy';
      readonly protocolVersion: string;
      /** Absent if the upstream has no sessions. */
      readonly sessionId: string | undefined;
    };

type LegacyPlainLink = Extract<PlainLink, { era: 'legacy' }>;

/** The caller and the upstream that a link connects. */
export interface LinkAsked {
  /** The owner: a principal at a server. */
  readonly key: string;
  readonly upstream: Upstream;
  /** The result of `upstreamLocation`. */
  readonly place: string;
}

interface KeptLink extends LinkAsked {
  /** A promise while the handshake is in progress. */
  link: Awaitable<PlainLink>;
  usedAt: EpochSeconds;
}

/**
 * The handshakes that the gateway makes for plain requests: one for each principal and server. They are kept while they
 * are used, never shared between principals, and ended when the server gets another upstream.
 */
export class PlainLinks {
  readonly #links = new Map<string, KeptLink>();
  #lastId = 0;
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#timer = setInterval(() => this.#endIdle(), 30_000).unref();
  }

  /** The link of this principal and server. Makes one if there is none. */
  link({ key, upstream, place }: LinkAsked): Awaitable<PlainLink> {
    const known = this.#links.get(key);
    if (known?.place === place) {
      known.usedAt = this.#clock.now();
      return known.link;
    }
    this.endOf(key);
    const link = shakeHands(upstream);
    const kept: KeptLink = { key, upstream, place, link, usedAt: this.#clock.now() };
    this.#links.set(key, kept);
    link.then(
      (made) => (kept.link = made),
      () => this.#links.get(key) === kept && this.#links.delete(key),
    );
    return link;
  }

  /** An id, as JSON text, that no other request through these links has. */
  nextId(): string {
    this.#lastId += 1;
    return String(this.#lastId);
  }

  /** Removes a link that turned out to be dead, unless another was made since. */
  forget(key: string, dead: PlainLink): void {
    if (this.#links.get(key)?.link === dead) this.#links.delete(key);
  }

  keeps(key: string): boolean {
    return this.#links.has(key);
  }

  /** Ends the link of an owner, at its upstream too. */
  endOf(key: string): void {
    const known = this.#links.get(key);
    this.#links.delete(key);
    // If the upstream cannot be reached, its session times out there.
    if (known) endLink(known).catch(() => undefined);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const ended = [...this.#links.values()].map(endLink);
    this.#links.clear();
    await Promise.allSettled(ended);
  }

  #endIdle(): void {
    for (const [key, { usedAt }] of this.#links) {
      if (usedAt + idleSeconds >= this.#clock.now()) continue;
      this.endOf(key);
    }
  }
}

/** Finds out which era the upstream speaks, trying the modern one first, and makes its handshake. */
async function shakeHands(upstream: Upstream): Promise<PlainLink> {
  const asked: Upstream = { send: (request) => send(upstream, request) };
  const discovered = await discover(asked);
  if (discovered.outcome === 'unclear') throw discovered.refusal;
  if (discovered.outcome === 'modern') return { era: 'modern' };
  const initialized = await initialize(asked);
  if (initialized.outcome === 'refused') throw initialized.refusal;
  // Nothing else of the handshake is kept: it contains the upstream's whole answer.
  const { protocolVersion, sessionId } = initialized.handshake;
  const link: LegacyPlainLink = { era: 'legacy', protocolVersion, sessionId };
  try {
    const confirmed = await asked.send({
      method: 'POST',
      headers: { ...postHeaders, ...handshakeHeaders(link) },
      body: Buffer.from(initializedNotification),
      signal: AbortSignal.timeout(confirmTimeoutMs),
    });
    await discard(confirmed.body);
  } catch (error) {
    await endFailedHandshake(upstream, { sessionId });
    throw error;
  }
  return link;
}

async function endLink({ link, upstream }: KeptLink): Promise<void> {
  const made = await link;
  if (made.era === 'modern' || made.sessionId === undefined) return;
  await endUpstreamSession(upstream, handshakeHeaders(made));
}
