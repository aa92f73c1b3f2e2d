import type { Era } from 'latchkey-mcp/headers';
import type { Admission } from './admission.ts';
import type { GiveUp } from './body-memory.ts';
import type { AdaptedCall, Call } from './call.ts';
import { presentingMethods } from './filters.ts';
import type { GatewayParts, PinnedRequest } from './gateway-parts.ts';
import { endFailedHandshake } from './answers.ts';
import { isPinnedList } from './tool-list.ts';
import { messageIn, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';

/** The method and id of a request whose answer contains definitions that are compared with the accepted ones. */
export function asksForDefinitions(
  request: UpstreamRequest,
): Omit<PinnedRequest, 'isForCaller'> | undefined {
  const { method = '', id } = messageIn(request)?.envelope ?? {};
  const isAsked = presentingMethods.has(method) || isPinnedList(method);
  return isAsked ? { method, id } : undefined;
}

/**
 * The upstream of a call, for a caller of one era. Requests pass the adapters, and the requests that the adapters send
 * pass `mirrored`, if the caller is legacy, and `pinned`. Classes instead of closures, because every call creates both.
 */
export class AdaptedUpstream implements Upstream, AdaptedCall {
  /** The upstream that the adapters send to. */
  readonly upstream: Upstream;
  readonly owner: string;
  readonly admission: Admission;
  readonly target: Call['target'];
  readonly #era: Era;
  readonly #parts: GatewayParts;

  constructor({ upstream, owner, admission, target }: Call, era: Era, parts: GatewayParts) {
    this.upstream = new DirectUpstream({ upstream, target }, era, parts);
    this.owner = owner;
    this.admission = admission;
    this.target = target;
    this.#era = era;
    this.#parts = parts;
  }

  send(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const answer = this.#parts.ports.eras.send(this.#era, request, this);
    const { kind, method = '', id } = messageIn(request)?.envelope ?? {};
    if (kind !== 'request' || !presentingMethods.has(method)) return answer;
    // Compared here, because the adapters answer some of these requests from an older handshake.
    return answer.then((introduction) =>
      this.#introduced(introduction, { method, id, isForCaller: true }),
    );
  }

  async #introduced(answer: UpstreamAnswer, request: PinnedRequest): Promise<UpstreamAnswer> {
    try {
      return await this.#parts.ports.pinned(answer, this.target, request);
    } catch (error) {
      await endFailedHandshake(this.upstream, answer);
      throw error;
    }
  }
}

/** The upstream that the adapters send to: compares definitions, and adds the headers that legacy callers do not send. */
class DirectUpstream implements Upstream {
  readonly #upstream: Upstream;
  readonly #target: Call['target'];
  readonly #era: Era;
  readonly #parts: GatewayParts;

  constructor(
    { upstream, target }: Pick<Call, 'upstream' | 'target'>,
    era: Era,
    parts: GatewayParts,
  ) {
    this.#upstream = upstream;
    this.#target = target;
    this.#era = era;
    this.#parts = parts;
  }

  get hold(): Upstream['hold'] {
    return this.#upstream.hold;
  }

  get giveUp(): GiveUp | undefined {
    return this.#upstream.giveUp;
  }

  send(request: UpstreamRequest): Promise<UpstreamAnswer> {
    // Modern callers repeat the arguments themselves.
    if (this.#era === 'modern') return this.#pinned(request);
    return this.#parts.mirrored.send(request, this.#target, (sent) => this.#pinned(sent));
  }

  #pinned(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const answer = this.#upstream.send(request);
    const asked = asksForDefinitions(request);
    if (!asked) return answer;
    return answer.then((list) =>
      this.#parts.ports.pinned(list, this.#target, { ...asked, isForCaller: false }),
    );
  }
}
