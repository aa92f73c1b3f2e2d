import type { Clock } from '#clock/clock';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import type { Asker } from './asker.ts';
import type { ClientWords } from './envelope.ts';
import { InterruptedCalls, type InterruptedCall } from './interrupted-calls.ts';
import type { LegacyCall } from './legacy-call.ts';
import type { LegacyLink } from './legacy-link.ts';
import { LegacyLinks } from './legacy-links.ts';
import { clientOf, legacyRequest } from './legacy-request.ts';
import { listening } from './listening.ts';
import { readMessage, stringAt, type Message } from './message.ts';
import { modernCall } from './modern-call.ts';
import {
  discoverResult,
  givenResponse,
  inputRequiredResult,
  modernStatus,
} from './modern-result.ts';
import { errorTo } from './responses.ts';
import { told, toldLive, toldNothing, toldOnce } from './told.ts';

/** Methods of the older era that the modern one has not. Tasks are another thing there. */
const legacyOnly = /^(?:initialize|ping|logging\/setLevel|resources\/(?:un)?subscribe|tasks\/.*)$/;

/** What a client says of itself is kept as long as its handshake is. */
const maxClientLetters = 64 * 1024;

/**
 * Upstreams of the older era as ones of the modern: the handshake is made here, what the upstream asks becomes
 * a result that needs input, and what it tells unasked a subscription. Sessions, states and subscriptions are
 * their owner's.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 */
export class ModernFace {
  readonly #links: LegacyLinks;
  readonly #interrupted = new InterruptedCalls();

  constructor(clock: Clock) {
    this.#links = new LegacyLinks(clock);
  }

  /**
   * The answer to a POST; `undefined` when the upstream does not speak the older era either.
   *
   * @throws {UpstreamError} when the upstream cannot be asked
   * @throws {GatewayRefusal} `not_theirs`, `too_many_requests`, `bad_params`
   */
  async send(request: UpstreamRequest, asker: Asker): Promise<UpstreamAnswer | undefined> {
    const { body = Buffer.alloc(0), signal } = request;
    const message = readMessage(body);
    // In this era a call is cancelled by closing its stream, and nothing else is told.
    if (message?.envelope.kind !== 'request') return toldNothing();
    const { id = 'null', method = '' } = message.envelope;
    if (legacyOnly.test(method)) return toldOnce(errorTo(id, -32601, 'Method not found'), 404);
    const state = stringAt(message, 'params', 'requestState');
    if (state !== undefined) return this.#goOn(message, state, asker, signal);
    const client = knownClient(message);
    for (let attempt = 1; ; attempt++) {
      const link = await this.#links.link(asker, client);
      if (!link) return undefined;
      if (method === 'server/discover') return toldOnce(discoverResult(link.initialized, id));
      if (method === 'subscriptions/listen') return toldLive(listening(link, message, signal));
      const started = await link.start(legacyRequest(message, link.nextId()), request.headers);
      if (started.outcome === 'started')
        return this.#follow(message, { ...asker, link, call: started.call }, signal);
      if (started.outcome === 'refused') return started.answer;
      // The upstream forgot the session, so it did not run the request: once more with a new one.
      this.#links.forget(asker.owner, link);
      if (attempt > 1)
        throw new GatewayRefusal('upstream_failed', { detail: 'it forgets its sessions' });
    }
  }

  /** Whether a link is kept for an owner; an interrupted call is one of its link's. */
  keeps(owner: string): boolean {
    return this.#links.keeps(owner);
  }

  /** Ends the links of an owner, and the calls in them that wait for a response. */
  endOf(owner: string): void {
    this.#links.endOf(owner);
  }

  async close(): Promise<void> {
    await this.#links.close();
  }

  /** The call that waits for what this retry brings. */
  async #goOn(
    retry: Message,
    state: string,
    { owner }: Asker,
    signal: AbortSignal,
  ): Promise<UpstreamAnswer> {
    const interrupted = this.#interrupted.take(state, owner);
    if (!interrupted) throw new GatewayRefusal('not_theirs', { detail: 'requestState' });
    const response = givenResponse(retry, interrupted.question);
    if (!response) return toldOnce(this.#ask(retry, interrupted));
    interrupted.link.tell(response);
    return this.#follow(retry, interrupted, signal);
  }

  async #follow(
    message: Message,
    { owner, link, call }: { owner: string; link: LegacyLink; call: LegacyCall },
    signal: AbortSignal,
  ): Promise<UpstreamAnswer> {
    const ask = (question: Message) => this.#ask(message, { owner, link, call, question });
    const isLogged = link.client.logLevel !== undefined;
    return told(modernCall(message, call, { ask, isLogged, signal }), modernStatus);
  }

  #ask({ envelope: { id = 'null' } }: Message, interrupted: InterruptedCall): Message {
    return inputRequiredResult(interrupted.question, id, this.#interrupted.keep(interrupted));
  }
}

/** @throws {GatewayRefusal} `bad_params` */
function knownClient(message: Message): ClientWords {
  const client = clientOf(message);
  const { capabilities, clientInfo = '', logLevel = '' } = client;
  if (capabilities.length + clientInfo.length + logLevel.length <= maxClientLetters) return client;
  throw new GatewayRefusal('bad_params', { detail: 'params._meta says too much of the client' });
}
