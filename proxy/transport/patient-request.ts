import type { IncomingMessage } from 'node:http';
import type { Clock, EpochSeconds } from '#clock/clock';
import { HttpError, platformCode } from './http-error.ts';
import type { Log } from '#log/log';
import { retryAfterSeconds } from './retry-after.ts';
import { UpstreamError } from './upstream.ts';

export type PatientRequestOptions = {
  /** Whether the request may run twice without harm; asked when that matters. */
  isRepeatable: () => boolean;
  /** Whether a connection that broke is to be made once more. */
  isWorthIt?: () => Promise<boolean>;
  /** When the assistant will have lost its patience. */
  patientUntil: EpochSeconds;
  signal: AbortSignal;
  clock: Clock;
  log: Log;
  /** From 0 up to 1. */
  random?: () => number;
};

/** How many times each kind of trouble is met before it is told. */
const unaskedAttempts = 3;
const connectionAttempts = 2;

const firstWaitMs = 250;
const longestWaitMs = 8_000;

/** A connection that was not made, or not any more; a firewall's silence is no such thing. */
const brokenConnection =
  /^(ECONNREFUSED|ECONNRESET|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR_SOCKET)$/;

/**
 * The response to what `send` sends, as many times as is safe and worth it: a server that says when to
 * come again has not begun; without that, and over a connection that broke behind the request, only
 * what may run twice is sent twice.
 *
 * @throws {UpstreamError} with `attempts`, or what the credential rejects with
 */
export async function patientRequest(
  send: () => Promise<IncomingMessage>,
  options: PatientRequestOptions,
): Promise<{ response: IncomingMessage; attempts: number }> {
  const { patientUntil, signal, clock, log, random = Math.random } = options;
  // Counted besides, as a clock that is set back would make the patience endless.
  let leftMs = (patientUntil - clock.now()) * 1000;
  for (let attempt = 1; ; attempt += 1) {
    const pauseMs = backOffMs(attempt, random());
    let waitMs: number;
    try {
      const response = await send();
      const asked = askedWaitMs(response, clock.now());
      const comesAgain = isBusy(response) && asked !== undefined;
      const isWorthIt =
        comesAgain || (isPassing(response) && attempt < unaskedAttempts && options.isRepeatable());
      waitMs = Math.max(asked ?? 0, 0) + pauseMs;
      if (!isWorthIt || waitMs > leftMs || clock.now() + waitMs / 1000 > patientUntil)
        return { response, attempts: attempt };
      log.debug('asked to come again', { status: response.statusCode, waitMs });
      response.resume();
    } catch (error) {
      if (!mayConnectAgain(error, options) || attempt >= connectionAttempts)
        throw counted(error, attempt);
      if (options.isWorthIt && !(await options.isWorthIt())) throw error;
      log.debug('connection broke', { reason: String(error) });
      waitMs = pauseMs;
    }
    leftMs -= waitMs;
    await clock.sleep(waitMs, signal);
    if (signal.aborted) throw new UpstreamError('aborted', 'aborted');
  }
}

/** RFC 6585 §4, RFC 9110 §15.6.4: both may say when to come again, and neither has done anything. */
function isBusy({ statusCode }: IncomingMessage): boolean {
  return statusCode === 429 || statusCode === 503;
}

function isPassing(response: IncomingMessage): boolean {
  return isBusy(response) || response.statusCode === 502 || response.statusCode === 504;
}

function askedWaitMs({ headers }: IncomingMessage, now: EpochSeconds): number | undefined {
  const seconds = retryAfterSeconds(headers['retry-after'], now);
  return seconds === undefined ? undefined : seconds * 1000;
}

function mayConnectAgain(error: unknown, { isRepeatable }: PatientRequestOptions): boolean {
  const cause = error instanceof UpstreamError ? error.cause : undefined;
  if (!(cause instanceof HttpError) || cause.code !== 'unreachable') return false;
  return brokenConnection.test(platformCode(cause.cause)) && (!cause.sent || isRepeatable());
}

/** Doubled each time, and anywhere in its upper half, so that many who failed do not come together. */
function backOffMs(attempt: number, random: number): number {
  const full = Math.min(firstWaitMs * 2 ** attempt, longestWaitMs);
  return Math.round(full / 2 + (full / 2) * random);
}

function counted(error: unknown, attempts: number): unknown {
  return error instanceof UpstreamError && attempts > 1 ? error.with({ attempts }) : error;
}
