import {
  type BodyHolder,
  type BodyMemory,
  freeBytes,
  type GiveUp,
  type HeldBody,
} from './body-memory.ts';
import type { Upstream, UpstreamAnswer, UpstreamBody, UpstreamRequest } from './upstream.ts';
import type { WholeCall } from './whole-call.ts';

/**
 * Counts the memory that one call uses for its upstream's answers. A body counts from its first chunk until its reader
 * calls `letGo`, or else until the call is over. A whole body of up to `freeBytes` is not tracked.
 */
export class HeldAnswers {
  readonly #memory: BodyMemory;
  readonly #holder: BodyHolder;
  readonly #endCall: GiveUp;
  /** The bodies that may count. */
  #bodies: Set<HeldBody> | undefined;
  /** Counts the part that is being sent to the caller, less the bytes that `#bodies` already count. */
  #passing: HeldBody | undefined;
  #isKept = false;
  #isOver = false;
  #cut: (() => void) | undefined;

  /** `endCall` ends the call that the answers belong to. */
  constructor(memory: BodyMemory, holder: BodyHolder, endCall: GiveUp) {
    this.#memory = memory;
    this.#holder = holder;
    this.#endCall = endCall;
  }

  /**
   * The same upstream, except that its answers count as memory of the call. An answer after the end of the call counts
   * until it has been read.
   */
  counted(upstream: Upstream, whole?: WholeCall): Upstream {
    return new CountedUpstream(this, upstream, whole);
  }

  /** Counts a body that is kept after it has been read. */
  hold(giveUp: GiveUp): HeldBody {
    return this.#memory.body(this.#holder, giveUp);
  }

  /** Ends the call, because others need the memory that it holds. An answer that is being sent to its caller breaks off. */
  readonly giveUp: GiveUp = (refusal) => {
    this.#end();
    this.#endCall(refusal);
    this.#cut?.();
  };

  /** Returns a function that registers `cut`, to be called if the call is given up. */
  get whenGivenUp(): (cut: () => void) => void {
    return (cut) => (this.#cut = cut);
  }

  /**
   * Counts a part of the answer, for as long as it is being sent.
   *
   * @throws {GatewayRefusal} `too_many_requests`
   */
  pass(bytes: number): void {
    if (bytes <= freeBytes) return;
    this.#passing ??= this.#body();
    this.#passing.letGo();
    const counted = this.#counted;
    if (counted + freeBytes < bytes) this.#passing.take(bytes - counted);
  }

  /** Ends what `pass` began: the part was sent, and no longer counts. */
  passed(): void {
    this.#passing?.letGo();
  }

  /** Lets the answers count even after `over`, until the returned function is called. Returns `undefined` if nothing counts. */
  keep(): (() => void) | undefined {
    if (this.#counted === 0) return undefined;
    this.#isKept = true;
    return () => this.#end();
  }

  /** The call has ended: nothing counts any more, unless `keep` was called. */
  over(): void {
    if (!this.#isKept) this.#end();
  }

  get #counted(): number {
    let bytes = 0;
    for (const body of this.#bodies ?? []) bytes += body.bytes;
    return bytes;
  }

  #end(): void {
    this.#isOver = true;
    for (const body of this.#bodies ?? []) body.letGo();
    this.#passing?.letGo();
    this.#bodies = undefined;
    this.#passing = undefined;
  }

  /** The same answer, except that its body counts. */
  countedAnswer(answer: UpstreamAnswer, giveUp?: GiveUp): UpstreamAnswer {
    const { body } = answer;
    if (!(body instanceof Uint8Array)) return { ...answer, body: this.#countedBody(body, giveUp) };
    if (body.length > freeBytes && !this.#isOver && !giveUp) this.#body().take(body.length);
    return answer;
  }

  #countedBody(body: AsyncIterable<Uint8Array>, giveUp?: GiveUp): UpstreamBody {
    const held = giveUp ? this.hold(giveUp) : this.#body();
    return { letGo: () => held.letGo(), [Symbol.asyncIterator]: () => this.#read(body, held) };
  }

  async *#read(body: AsyncIterable<Uint8Array>, held: HeldBody): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of body) {
        held.take(chunk.length);
        yield chunk;
      }
    } finally {
      if (!this.#bodies?.has(held)) held.letGo();
      if (held.bytes === 0) this.#bodies?.delete(held);
    }
  }

  #body(): HeldBody {
    const held = this.hold(this.giveUp);
    if (!this.#isOver) (this.#bodies ??= new Set()).add(held);
    return held;
  }
}

/** An upstream whose answers count for one call. */
class CountedUpstream implements Upstream {
  readonly #held: HeldAnswers;
  readonly #upstream: Upstream;
  readonly #whole: WholeCall | undefined;

  constructor(held: HeldAnswers, upstream: Upstream, whole: WholeCall | undefined) {
    this.#held = held;
    this.#upstream = upstream;
    this.#whole = whole;
  }

  send(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const whole = this.#whole;
    const sent = this.#upstream.send(whole === undefined ? request : { ...request, whole });
    return sent.then((answer) => this.#held.countedAnswer(answer, request.giveUp));
  }

  get hold(): NonNullable<Upstream['hold']> {
    return (giveUp) => this.#held.hold(giveUp);
  }

  get giveUp(): GiveUp {
    return this.#held.giveUp;
  }
}
