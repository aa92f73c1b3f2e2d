import type { Clock } from '#clock/clock';
import type { ServerLimits } from '#organizations/server-limits';
import type { Admission } from './admission.ts';
import { CallerRate } from './caller-rate.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { Envelope } from './json-scan.ts';
import { isCall } from './metering.ts';
import { countedFor } from './open-answers.ts';

const sweepEvery = 1024;

/** A request that was counted. */
export interface CountedCall {
  readonly over: () => void;
}

/**
 * Holds callers to the limits of the servers that have some: how often, how many at once, how long. Counted
 * are requests that end, and not what only listens. Each process counts for itself.
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
    if (!isCounted(envelope)) return nothing;
    const release = this.#count(`${countedFor(admission)} ${admission.server.id}`, limits);
    const stop = endLater(ending, limits);
    const over = () => {
      stop();
      release();
    };
    return { over };
  }

  #count(caller: string, limits: ServerLimits): () => void {
    const { callsPerMinute, concurrentCalls } = limits;
    if (callsPerMinute === undefined && concurrentCalls === undefined) return () => undefined;
    const rate = this.#rateOf(caller);
    if (concurrentCalls !== undefined && rate.open >= concurrentCalls) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `${concurrentCalls} calls of yours are under way, as many as this server takes at once`,
        retryAfterSeconds: 1,
      });
    }
    const wait = callsPerMinute === undefined ? 0 : rate.take(callsPerMinute, this.#clock.now());
    if (wait > 0) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `this server takes ${callsPerMinute} calls a minute from one caller`,
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

/** A call without an id is a notification to us, and may be run by an upstream all the same. */
function isCounted(envelope: Envelope): boolean {
  const { kind, method = '' } = envelope;
  return isCall(envelope) || (kind === 'notification' && !method.startsWith('notifications/'));
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
