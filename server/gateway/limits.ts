import type { Clock, EpochSeconds } from '#clock/clock';
import type { ServerLimits } from '#organizations/server-limits';
import type { Envelope } from 'latchkey-mcp/message';
import type { Admission } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { isCall } from './metering.ts';
import { countedFor } from './open-answers.ts';

const cleanupEvery = 1024;
/** Every call may be cancelled, and a handshake must still be possible. */
const noticesACall = 2;
/** A caller limited to one call at a time may have several assistants that listen. */
const streamsACall = 4;

/** A request that was counted. */
export interface CountedCall {
  readonly over: () => void;
}

/** The limits of one kind of message, and its name. */
interface Bounds {
  readonly kind: 'calls' | 'notifications' | 'streams';
  readonly perMinute: number | undefined;
  readonly atOnce: number | undefined;
}

/**
 * Applies the limits of a server to its callers: rate, concurrency and duration. Notifications and listening streams
 * are counted separately, so that a caller can always cancel. Each process counts for itself.
 */
export class CallLimits {
  readonly #clock: Clock;
  readonly #rates = new Map<string, CallerRate>();
  #untilCleanup = cleanupEvery;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Starts a request and ends it with `too_slow` when its time is up. Call `over` at its end.
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
    // Responses were requested, so there cannot be more of them than requests.
    if (envelope.kind === 'response') return uncounted;
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
   * Starts a listening stream, which has no time limit. Call `over` at its end.
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
        detail: `you have ${atOnce} concurrent ${kind}, the limit of this server`,
        retryAfterSeconds: 1,
      });
    }
    const wait = perMinute === undefined ? 0 : rate.take(perMinute, this.#clock.now());
    if (wait > 0) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `this server allows ${perMinute} ${kind} per minute for each caller`,
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
    this.#untilCleanup -= 1;
    if (this.#untilCleanup <= 0) {
      for (const [name, rate] of this.#rates) if (rate.isIdle(now)) this.#rates.delete(name);
      // Doubling the interval with the number of callers keeps the cost of a scan proportional.
      this.#untilCleanup = Math.max(cleanupEvery, this.#rates.size);
    }
    const made = new CallerRate(now);
    this.#rates.set(caller, made);
    return made;
  }
}

const uncounted: CountedCall = { over: () => undefined };

function checkSize(bytes: number, { requestBytes }: ServerLimits): void {
  if (requestBytes === undefined || bytes <= requestBytes) return;
  const detail = `this server accepts at most ${requestBytes} bytes`;
  throw new GatewayRefusal('too_large', { detail });
}

function endLater(ending: AbortController, { callSeconds }: ServerLimits): () => void {
  if (callSeconds === undefined) return () => undefined;
  const timer = setTimeout(() => {
    const detail = `it exceeded the timeout of ${callSeconds} seconds for this server`;
    ending.abort(new GatewayRefusal('too_slow', { detail }));
  }, callSeconds * 1000);
  timer.unref();
  return () => clearTimeout(timer);
}

const windowSeconds = 60;

/** How many seconds a caller must wait before the next request; 0 if this one was counted. */
type SecondsToWait = number;

/**
 * The requests of one caller to one server in the last minute, and those in progress. Sixty counters, one per second,
 * so that no sixty seconds exceed the limit.
 */
export class CallerRate {
  readonly #counts = new Uint32Array(windowSeconds);
  #sum = 0;
  /** The second of the latest counter. */
  #last: EpochSeconds;
  open = 0;

  constructor(now: EpochSeconds) {
    this.#last = Math.floor(now);
  }

  /** Whether nothing remains to be remembered. */
  isIdle(now: EpochSeconds): boolean {
    return this.open === 0 && Math.floor(now) - this.#last >= windowSeconds;
  }

  /** Counts a request unless `most` were counted within the minute. */
  take(most: number, now: EpochSeconds): SecondsToWait {
    this.#forget(Math.floor(now));
    if (this.#sum >= most) return this.#wait(most);
    this.#counts[this.#last % windowSeconds] = this.#at(this.#last) + 1;
    this.#sum += 1;
    return 0;
  }

  /** Drops counters older than a minute. If the clock was set back, counting continues where it was. */
  #forget(second: number): void {
    const passed = Math.min(second - this.#last, windowSeconds);
    for (let behind = 1; behind <= passed; behind++) {
      const slot = (this.#last + behind) % windowSeconds;
      this.#sum -= this.#counts[slot] ?? 0;
      this.#counts[slot] = 0;
    }
    this.#last = Math.max(this.#last, second);
  }

  /** The time until enough of the oldest requests expire to allow one more. */
  #wait(most: number): SecondsToWait {
    let left = this.#sum;
    for (let ahead = 1; ahead < windowSeconds; ahead++) {
      left -= this.#at(this.#last + ahead);
      if (left < most) return ahead;
    }
    return windowSeconds;
  }

  #at(second: number): number {
    return this.#counts[second % windowSeconds] ?? 0;
  }
}
