import type { Era } from 'latchkey-mcp/headers';
import type { Admission } from './admission.ts';
import type { GiveUp } from './body-memory.ts';
import type { AdaptedCall, Call } from './call.ts';
import { type GatewayParts, pinnedMethods } from './gateway-parts.ts';
import { messageIn, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';

/**
 * The upstream of a call for a caller of one era: requests pass the adapters, and what the adapters send passes
 * `mirrored` and `pinned`. Classes instead of closures, because every call has one.
 */
export class AdaptedUpstream implements Upstream, AdaptedCall {
  /** Behind the adapters. */
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
    return this.#parts.ports.eras.send(this.#era, request, this);
  }
}

/** What the adapters send to. */
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
    const asked = messageIn(request)?.envelope.method;
    const method = pinnedMethods.find((pinned) => pinned === asked);
    if (!method) return answer;
    return answer.then((made) => this.#parts.ports.pinned(made, this.#target, method));
  }
}
