import type { Ending } from '#model/ending';
import type { Clock, EpochSeconds } from '#model/clock';
import type { ServerLimits } from '#model/server-limits';
import type { Envelope } from 'latchkey-mcp/message';
import type { Admission } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { isCall } from './call-methods.ts';
import { countedFor } from './open-answers.ts';

const cleanupEvery = 1024;
/** Notifications for each allowed call: every call may be cancelled, and a handshake must still be possible. */
const noticesACall = 2;
/** Listening streams for each allowed call: a caller limited to one call at a time may have several assistants that listen. */
const streamsACall = 4;

const tellEveryMs = 200;
/** After this many rounds, that is two seconds, other nodes are told again which requests are still open. */
const tellOpenEvery = 10;
/** The open requests that a node reported are forgotten after this time, unless the node repeats the report. */
const elsewhereSeconds = 6;
/** The most changes in one message: with names of 100 bytes, less than half the size of the largest message between nodes. */
const mostTold = 2000;

/** The counted caller, how many requests were counted since the last report, and how many are open. */
export type RateChange = [name: string, taken: number, open: number];

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
 * are counted separately, so that a caller can always cancel. Several nodes report their counts to each other five times a
 * second, so a caller may exceed a limit by the requests that the other nodes let in since their last report.
 */
export class CallLimits {
  readonly #clock: Clock;
  readonly #rates = new Map<string, CallerRate>();
  /** How many requests were counted since the other nodes were last told, by name. */
  readonly #untold = new Map<string, number>();
  readonly #tell: ((changes: RateChange[]) => void) | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #rounds = 0;
  #untilCleanup = cleanupEvery;

  /** `tell` reports counts to the other nodes, if there are any. */
  constructor(clock: Clock, tell?: (changes: RateChange[]) => void) {
    this.#clock = clock;
    this.#tell = tell;
    if (tell) this.#timer = setInterval(() => this.#tellOthers(tell), tellEveryMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Adds the counts that another node reported. */
  heard(instance: string, changes: readonly RateChange[]): void {
    const now = this.#clock.now();
    for (const [name, taken, open] of changes) {
      this.#rateOf(name).addElsewhere(instance, { taken, open }, now);
    }
  }

  #tellOthers(tell: (changes: RateChange[]) => void): void {
    this.#rounds += 1;
    // Requests that stay open are reported again, so that other nodes can forget a node that no longer reports.
    if (this.#rounds % tellOpenEvery === 0) {
      for (const [name, { open }] of this.#rates) if (open > 0) this.#note(name, 0);
    }
    const changes = [...this.#untold].map(([name, taken]): RateChange => [
      name,
      taken,
      this.#rates.get(name)?.open ?? 0,
    ]);
    this.#untold.clear();
    for (let at = 0; at < changes.length; at += mostTold) tell(changes.slice(at, at + mostTold));
  }

  #note(name: string, taken: number): void {
    if (this.#tell) this.#untold.set(name, (this.#untold.get(name) ?? 0) + taken);
  }

  /**
   * Starts a request and ends it with `too_slow` when its time is up. Call `over` at its end.
   *
   * @throws {GatewayRefusal} `too_many_requests`, `too_large`
   */
  begin(
    { admission, ending }: { admission: Admission; ending: Pick<Ending, 'abort'> },
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
    const name = `${countedFor(admission)} ${admission.endpoint.id} ${kind}`;
    const rate = this.#rateOf(name);
    const now = this.#clock.now();
    if (atOnce !== undefined && rate.openAnywhere(now) >= atOnce) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `the limit of concurrent ${kind} for each caller of this server is ${atOnce}`,
        retryAfterSeconds: 1,
      });
    }
    const wait = perMinute === undefined ? 0 : rate.take(perMinute, now);
    if (wait > 0) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `the limit of ${kind} per minute for each caller of this server is ${perMinute}`,
        retryAfterSeconds: wait,
      });
    }
    rate.open += 1;
    this.#note(name, perMinute === undefined ? 0 : 1);
    return () => {
      rate.open -= 1;
      this.#note(name, 0);
    };
  }

  #rateOf(caller: string): CallerRate {
    const now = this.#clock.now();
    const known = this.#rates.get(caller);
    if (known) return known;
    this.#untilCleanup -= 1;
    if (this.#untilCleanup <= 0) {
      for (const [name, rate] of this.#rates) if (rate.isIdle(now)) this.#rates.delete(name);
      // The next scan comes only after as many new callers as there are now, so that scans stay cheap however many
      // callers there are.
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

function endLater(ending: Pick<Ending, 'abort'>, { callSeconds }: ServerLimits): () => void {
  if (callSeconds === undefined) return () => undefined;
  const timer = setTimeout(() => {
    const detail = `it exceeded the timeout of this server (${callSeconds} s)`;
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
  /** Requests in progress at other nodes, by instance. */
  readonly #elsewhere = new Map<string, { readonly open: number; readonly at: EpochSeconds }>();

  constructor(now: EpochSeconds) {
    this.#last = Math.floor(now);
  }

  /** Whether nothing remains to be remembered. */
  isIdle(now: EpochSeconds): boolean {
    return this.openAnywhere(now) === 0 && Math.floor(now) - this.#last >= windowSeconds;
  }

  /** The requests in progress here, and those that other nodes recently reported. */
  openAnywhere(now: EpochSeconds): number {
    let sum = this.open;
    for (const [instance, { open, at }] of this.#elsewhere) {
      if (at + elsewhereSeconds < now) this.#elsewhere.delete(instance);
      else sum += open;
    }
    return sum;
  }

  /** Counts the requests that another node let in since its last report, and notes how many requests are in progress there. */
  addElsewhere(
    instance: string,
    { taken, open }: { readonly taken: number; readonly open: number },
    now: EpochSeconds,
  ): void {
    this.#forget(Math.floor(now));
    this.#counts[this.#last % windowSeconds] = this.#at(this.#last) + taken;
    this.#sum += taken;
    if (open > 0) this.#elsewhere.set(instance, { open, at: now });
    else this.#elsewhere.delete(instance);
  }

  /** Counts a request unless `most` were counted within the last minute. */
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
