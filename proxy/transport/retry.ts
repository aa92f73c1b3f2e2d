import { membersOf } from 'latchkey-mcp/json-value';
import { backOffs, randomPauseMs } from '#clock/back-off';
import type { IncomingMessage } from 'node:http';
import type { Clock, EpochSeconds } from '#clock/clock';
import { stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { HttpError, platformCode } from './http-error.ts';
import { UpstreamError } from './upstream.ts';

type RetryOptions = {
  /** Whether the request is safe to repeat. Called only when that matters. */
  isRepeatable: () => boolean;
  /** Whether to reconnect once after a broken connection. */
  isWorthIt?: () => Promise<boolean>;
  /** When the assistant will stop waiting. */
  deadlineAt: EpochSeconds;
  signal: AbortSignal;
  clock: Clock;
  log: Log;
  /** From 0 up to 1. */
  random?: () => number;
};

/**
 * The reasons to send a request again: how often it is sent in total, and whether the server may have executed it, in which case
 * only safe requests are repeated. Rejected tokens are handled by `authorizedRequest`, which repeats once with a renewed one.
 */
const reasons = {
  /** 429 or 503 with `Retry-After`, while the assistant waits. RFC 6585 §4, RFC 9110 §15.6.4 */
  busy: { attempts: Infinity, mayHaveRun: false },
  /** 429, 502, 503 or 504, with no or an invalid `Retry-After`. */
  unavailable: { attempts: 3, mayHaveRun: true },
  not_connected: { attempts: 2, mayHaveRun: false },
  connection_broken: { attempts: 2, mayHaveRun: true },
  /** An answer that breaks off twice is likely to break off again. */
  answer_broken: { attempts: 2, mayHaveRun: true },
  /** 404 in a session: sent again in another session. */
  session_lost: { attempts: 2, mayHaveRun: false },
  /** An event stream that ended before the answer is resumed after its last event. Events reset the count. */
  stream_ended: { attempts: 5, mayHaveRun: false },
} satisfies Record<string, { attempts: number; mayHaveRun: boolean }>;

type Reason = keyof typeof reasons;

/** Whether a request that was sent `attempts` times is sent again. `isRepeatable` is called only when that matters. */
export function mayRetry(reason: Reason, attempts: number, isRepeatable: () => boolean): boolean {
  const { attempts: most, mayHaveRun: mayRun } = reasons[reason];
  return attempts < most && (!mayRun || isRepeatable());
}

/** Errors of connections that were refused or reset. Timeouts do not count. */
const brokenConnection =
  /^(ECONNREFUSED|ECONNRESET|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR_SOCKET)$/;

/**
 * Calls `send` as often as `reasons` allow, until the assistant stops waiting, and returns the response.
 *
 * @throws {UpstreamError} with `attempts`, or the error of the credential
 */
export async function requestWithRetries(
  send: () => Promise<IncomingMessage>,
  options: RetryOptions,
): Promise<{ response: IncomingMessage; attempts: number }> {
  const { deadlineAt, signal, clock, log, random = Math.random } = options;
  // Counted as well, because the deadline would move if the clock were set back.
  let leftMs = (deadlineAt - clock.now()) * 1000;
  for (let attempt = 1; ; attempt += 1) {
    const growingMs = randomPauseMs(backOffs.request, attempt, random);
    let waitMs: number;
    try {
      const response = await send();
      const asked = askedWaitMs(response, clock.now());
      const reason = busyReason(response, asked);
      waitMs = Math.max(asked ?? 0, 0) + growingMs;
      const isRetried = reason && mayRetry(reason, attempt, options.isRepeatable);
      if (!isRetried || waitMs > leftMs || clock.now() + waitMs / 1000 > deadlineAt)
        return { response, attempts: attempt };
      log.debug('server busy, retrying later', { status: response.statusCode, waitMs });
      response.resume();
    } catch (error) {
      const reason = connectionReason(error);
      if (!reason || !mayRetry(reason, attempt, options.isRepeatable))
        throw counted(error, attempt);
      if (options.isWorthIt && !(await options.isWorthIt())) throw error;
      log.debug('connection broke', { reason: String(error) });
      waitMs = growingMs;
    }
    leftMs -= waitMs;
    await clock.sleep(waitMs, signal);
    if (signal.aborted) throw new UpstreamError('aborted', 'aborted');
  }
}

function busyReason(
  { statusCode }: IncomingMessage,
  askedMs: number | undefined,
): Reason | undefined {
  const isBusy = statusCode === 429 || statusCode === 503;
  if (isBusy && askedMs !== undefined) return 'busy';
  return isBusy || statusCode === 502 || statusCode === 504 ? 'unavailable' : undefined;
}

function askedWaitMs({ headers }: IncomingMessage, now: EpochSeconds): number | undefined {
  const seconds = retryAfterSeconds(headers['retry-after'], now);
  return seconds === undefined ? undefined : seconds * 1000;
}

function connectionReason(error: unknown): Reason | undefined {
  const cause = error instanceof UpstreamError ? error.cause : undefined;
  if (!(cause instanceof HttpError) || cause.code !== 'unreachable') return undefined;
  if (!brokenConnection.test(platformCode(cause.cause))) return undefined;
  return cause.sent ? 'connection_broken' : 'not_connected';
}

function counted(error: unknown, attempts: number): unknown {
  return error instanceof UpstreamError && attempts > 1 ? error.with({ attempts }) : error;
}

/**
 * Sends a request, and sends it again if the response ended early and the request is safe to repeat. After a complete answer
 * without a result, it is not repeated.
 */
export async function retryBrokenAnswer(
  ask: () => Promise<void>,
  mayRepeat: () => boolean,
): Promise<void> {
  try {
    await ask();
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.code !== 'no_answer') throw error;
    if (error.status === 202 || error.status === 204) throw error;
    if (!mayRetry('answer_broken', 1, mayRepeat)) throw error;
    await ask().catch((again: unknown) => {
      throw again instanceof UpstreamError ? again.with({ attempts: 2 }) : again;
    });
  }
}

/** Methods that only read, or that set a value which a repetition sets again. */
const methods = new Set([
  'initialize',
  'ping',
  'server/discover',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'logging/setLevel',
  'tasks/get',
  'tasks/list',
  'tasks/result',
]);

/** The limit of remembered tools. Calls of other tools are not repeated. */
const mostTools = 10_000;

/**
 * Tells which requests are safe to repeat. A tool call is repeated only if the server's last list says that the tool only reads
 * (`readOnlyHint`) or that a second call has no further effect (`idempotentHint`).
 *
 * MCP 2025-11-25 tools, annotations
 */
export function repeatableRequests() {
  const tools = new Set<string>();
  return {
    has(request: Message): boolean {
      if (request.method !== 'tools/call') return methods.has(request.method ?? '');
      return tools.has(stringAt(request, 'params', 'name') ?? '');
    },
    /** Records the annotations of the tools in an answer to `tools/list`. */
    learn(request: Message, answer: Message): void {
      const listed = textAt(answer, 'result', 'tools');
      if (listed === undefined) return;
      if (stringAt(request, 'params', 'cursor') === undefined) tools.clear();
      for (const [name, harmless] of hints(JSON.parse(listed)))
        if (!harmless) tools.delete(name);
        else if (tools.size < mostTools) tools.add(name);
    },
  };
}

function hints(tools: unknown): [name: string, harmless: boolean][] {
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool): [string, boolean][] => {
    const { name, annotations } = membersOf(tool);
    if (typeof name !== 'string') return [];
    const { readOnlyHint, idempotentHint } = membersOf(annotations);
    return [[name, readOnlyHint === true || idempotentHint === true]];
  });
}

/** Whether a request that failed with this error may have been executed. */
export function mayHaveRun(error: unknown): error is UpstreamError {
  if (!(error instanceof UpstreamError)) return false;
  const { code, cause, status = 0 } = error;
  switch (code) {
    case 'unreachable':
      return cause instanceof HttpError && cause.sent;
    case 'no_answer':
      return true;
    case 'status':
      return status >= 500 && status !== 503;
    // These errors require another reaction than repeating the request.
    case 'not_json_rpc':
    case 'refused':
    case 'account':
    case 'too_large':
    case 'aborted':
    case 'forbidden':
    case 'redirected':
    case 'unauthorized':
    case 'suspended':
      return false;
  }
}

/**
 * How long a server asks us to wait, in seconds; `undefined` if the header is missing or invalid.
 *
 *     Retry-After: 120
 *     Retry-After: Fri, 20 Nov 2026 09:00:00 GMT
 *
 * RFC 9110 §10.2.3
 */
export function retryAfterSeconds(
  header: string | undefined,
  now: EpochSeconds,
): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  if (!/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil(at / 1000) - now);
}

export function recurringEvent() {
  const waiting = new Set<() => void>();
  return {
    happened(): void {
      for (const wake of waiting) wake();
    },
    /** Resolves at the next event, or when `signal` aborts. Never rejects. */
    next: (signal: AbortSignal) =>
      new Promise<void>((resolve) => {
        if (signal.aborted) return resolve();
        const wake = () => {
          waiting.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        waiting.add(wake);
        signal.addEventListener('abort', wake);
      }),
  };
}

/** An event that recurs, and its waiters. */
export type RecurringEvent = ReturnType<typeof recurringEvent>;
