import type { Clock } from '#clock/clock';
import type { ServerLimits } from '#organizations/server-limits';
import type { Admission } from './admission.ts';
import { CallerRate } from './caller-rate.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { Envelope } from './json-scan.ts';
import { isCall } from './metering.ts';
import { countedFor } from './open-answers.ts';

const sweepEvery = 1024;
/** Every call may be cancelled, and there must be room for a handshake. */
const noticesACall = 2;
/** Who calls once at a time may have several assistants that listen. */
const streamsACall = 4;

/** A request that was counted. */
export interface CountedCall {
  readonly over: () => void;
}

/** What one kind of message is held to, and what it is called. */
interface Bounds {
  readonly kind: 'calls' | 'notifications' | 'streams';
  readonly perMinute: number | undefined;
  readonly atOnce: number | undefined;
}

/**
 * Holds callers to the limits of the servers that have some: how often, how many at once, how long. Calls are
 * counted, and beside them, so that a caller can cancel what it called, notifications and the streams by which it
 * listens. Each process counts for itself.
 */
export class CallLimits {
  readonly #clock: Clock;
  readonly #rates = new Map<string, CallerRate>();
  #untilSweep = sweepEvery;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Lets a request begin, and ends it with `too_slow` when its time is over. `over` must be called at its end.
   *
   * @throws {GatewayRefusal} `too_many_requests`, `too_large`
   */
  begin(
    { admission, ending }: { admission: Admission; ending: AbortController },
    envelope: Envelope,
    body: Uint8Array,
    limits: ServerLimits,
  ): CountedCall {
    checkSize(body.length, limits);
    // It was asked for: nobody sends more of them than there are requests.
    if (envelope.kind === 'response') return nothing;
    if (envelope.method === 'subscriptions/listen') return this.listen(admission, limits);
    const { callsPerMinute, concurrentCalls: atOnce } = limits;
    if (!isCall(envelope)) {
      const perMinute = callsPerMinute && callsPerMinute * noticesACall;
      const over = this.#count(admission, { kind: 'notifications', perMinute, atOnce: undefined });
      return { over };
    }
    const release = this.#count(admission, { kind: 'calls', perMinute: callsPerMinute, atOnce });
    const stop = endLater(ending, limits);
    const over = () => {
      stop();
      release();
    };
    return { over };
  }

  /**
   * Lets a stream begin by which its caller listens, for as long as it likes. `over` must be called at its end.
   *
   * @throws {GatewayRefusal} `too_many_requests`
   */
  listen(admission: Admission, { callsPerMinute, concurrentCalls }: ServerLimits): CountedCall {
    const perMinute = callsPerMinute && callsPerMinute * noticesACall;
    const atOnce = concurrentCalls && concurrentCalls * streamsACall;
    return { over: this.#count(admission, { kind: 'streams', perMinute, atOnce }) };
  }

  #count(admission: Admission, { kind, perMinute, atOnce }: Bounds): () => void {
    if (perMinute === undefined && atOnce === undefined) return () => undefined;
    const rate = this.#rateOf(`${countedFor(admission)} ${admission.server.id} ${kind}`);
    if (atOnce !== undefined && rate.open >= atOnce) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `${atOnce} ${kind} of yours are under way, as many as this server takes at once`,
        retryAfterSeconds: 1,
      });
    }
    const wait = perMinute === undefined ? 0 : rate.take(perMinute, this.#clock.now());
    if (wait > 0) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `this server takes ${perMinute} ${kind} a minute from one caller`,
        retryAfterSeconds: wait,
      });
    }
    rate.open += 1;
    return () => {
      rate.open -= 1;
    };
  }

  #rateOf(caller: string): CallerRate {
    const now = this.#clock.now();
    const known = this.#rates.get(caller);
    if (known) return known;
    this.#untilSweep -= 1;
    if (this.#untilSweep <= 0) {
      for (const [name, rate] of this.#rates) if (rate.isIdle(now)) this.#rates.delete(name);
      // As many again as there are: the cost of looking through them stays in proportion.
      this.#untilSweep = Math.max(sweepEvery, this.#rates.size);
    }
    const made = new CallerRate(now);
    this.#rates.set(caller, made);
    return made;
  }
}

const nothing: CountedCall = { over: () => undefined };

function checkSize(bytes: number, { requestBytes }: ServerLimits): void {
  if (requestBytes === undefined || bytes <= requestBytes) return;
  const detail = `this server takes at most ${requestBytes} bytes`;
  throw new GatewayRefusal('too_large', { detail });
}

function endLater(ending: AbortController, { callSeconds }: ServerLimits): () => void {
  if (callSeconds === undefined) return () => undefined;
  const timer = setTimeout(() => {
    const detail = `it took longer than the ${callSeconds} seconds that this server allows`;
    ending.abort(new GatewayRefusal('too_slow', { detail }));
  }, callSeconds * 1000);
  timer.unref();
  return () => clearTimeout(timer);
}
