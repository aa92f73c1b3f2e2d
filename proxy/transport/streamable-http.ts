import type { IncomingMessage } from 'node:http';
import type { Clock, EpochSeconds } from '#clock/clock';
import { modernVersion, stringAt, type Message, modernHeaders } from 'latchkey-mcp/raw-message';
import type { Tracing } from 'latchkey-mcp/tracing';
import type { Log } from '#log/log';
import { readAnswer, isEventStream, streamedAnswer } from './answers.ts';
import { authorizedRequest, type Credential } from './credential.ts';
import type { HttpClient } from './http-client.ts';
import {
  recurringEvent,
  retryBrokenAnswer,
  requestWithRetries,
  repeatableRequests,
  retryAfterSeconds,
  mayHaveRun,
  mayRetry,
} from './retry.ts';
import { sessionStream } from './session-stream.ts';
import { heldSession, agreedSession, sessionHeaders, sessionSettings } from './session.ts';
import { UpstreamError, type Deliver, type Upstream } from './upstream.ts';

export type StreamableHttpOptions = {
  url: URL;
  credential: Credential;
  http: HttpClient;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
  /** Additional headers of a modern request. */
  toolHeaders?: (message: Message) => Record<string, string>;
  /** A span for each request of the assistant and, below it, each HTTP request; absent unless the user wants traces. */
  tracing?: Tracing | undefined;
  /** Whether there is a cached answer, so that a broken connection is reported immediately. */
  hasCachedAnswer?: (message: Message) => Promise<boolean>;
};

/** How a message is sent. */
type Asking = {
  signal: AbortSignal;
  deadlineAt: EpochSeconds;
  /** Whether it belongs to a handshake that we repeat. */
  isOurs?: boolean;
};

/** How long an assistant waits for an answer in total. */
const assistantTimeoutSeconds = 60;

/**
 * If the request is safe to repeat, a gateway's report that it lost the server during the answer counts as an answer that
 * broke off.
 */
function exceptLost(deliver: Deliver, mayRepeat: () => boolean): Deliver {
  return async (message) => {
    if (stringAt(message, 'error', 'data', 'outcome') === 'unknown' && mayRepeat())
      throw new UpstreamError('no_answer', 'the gateway lost the MCP server');
    await deliver(message);
  };
}

/**
 * Streamable HTTP in both eras: sessions with a stream of their own, resumption and DELETE up to 2025-11-25, single exchanges
 * since 2026-07-28. The message determines the era.
 */
export function streamableHttp(options: StreamableHttpOptions): Upstream {
  const { url, clock, log, maxMessageBytes, tracing } = options;
  /** The `traceparent` below the spans of requests under way. */
  const traces = new WeakMap<Message, string>();
  const http = tracing ? tracedHttp(options.http, tracing) : options.http;
  const repeatable = repeatableRequests();
  const accepted = recurringEvent();
  const settings = sessionSettings();
  const session = heldSession({
    send: async (message, signal) => {
      const asking = { signal, deadlineAt: deadline(), isOurs: true };
      await exchange(message, () => Promise.resolve(), asking);
    },
    settings: () => settings.all(),
    log,
  });

  const deadline = (): EpochSeconds => clock.now() + assistantTimeoutSeconds;

  function postOnce(message: Message, signal: AbortSignal): Promise<IncomingMessage> {
    const traceparent = traces.get(message);
    const modern = modernHeaders(message);
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(modern
        ? { ...modern, ...options.toolHeaders?.(message) }
        : sessionHeaders(session.current())),
      // Modern servers that also answer `initialize` require the header on every POST.
      ...(message.method === 'initialize' && { 'mcp-method': 'initialize' }),
      ...(traceparent !== undefined && { traceparent }),
    };
    return authorizedRequest(
      { url, method: 'POST', headers, body: message.bytes, signal },
      { ...options, http },
    );
  }

  function post(message: Message, deadlineAt: EpochSeconds, signal: AbortSignal) {
    return requestWithRetries(() => postOnce(message, signal), {
      isRepeatable: () => repeatable.has(message),
      isWorthIt: async () => !(await options.hasCachedAnswer?.(message)),
      deadlineAt,
      signal,
      clock,
      log,
    });
  }

  async function get(lastEventId: string | undefined, signal: AbortSignal) {
    const headers = {
      accept: 'text/event-stream',
      ...sessionHeaders(session.current()),
      ...(lastEventId !== undefined && { 'last-event-id': headerBytes(lastEventId) }),
    };
    return authorizedRequest({ url, method: 'GET', headers, signal }, options);
  }

  async function send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const deadlineAt = deadline();
    const revival = session.revival();
    if (revival) await revival.catch(() => undefined);
    const mayRepeat = () => repeatable.has(message) && !signal.aborted && clock.now() < deadlineAt;
    let taking = exceptLost(deliver, mayRepeat);
    await retryBrokenAnswer(async () => {
      const first = taking;
      taking = deliver;
      await exchange(message, first, { signal, deadlineAt });
    }, mayRepeat);
  }

  /** `send` within a span, which continues the trace of the assistant if the request names one. */
  async function tracedSend(message: Message, deliver: Deliver, signal: AbortSignal) {
    if (!tracing || message.kind !== 'request') return send(message, deliver, signal);
    const assistants = { traceparent: stringAt(message, 'params', '_meta', 'traceparent') };
    const span = tracing.begin('request', assistants, { kind: 'server', attributes: {} });
    const { method } = message;
    span.describe(
      method,
      method === 'tools/call' ? stringAt(message, 'params', 'name') : undefined,
    );
    traces.set(message, span.traceparent);
    try {
      await send(message, deliver, signal);
      span.end();
    } catch (error) {
      span.end(error instanceof UpstreamError ? error.code : 'unknown');
      throw error;
    }
  }

  async function exchange(
    message: Message,
    deliver: Deliver,
    { signal, deadlineAt, isOurs = false }: Asking,
  ): Promise<void> {
    const legacy = modernVersion(message) === undefined;
    const handshake = legacy && message.method === 'initialize';
    if (handshake && !isOurs) settings.forget();
    if (handshake) session.set({ initialize: message });
    const inSession = legacy ? session.current().id : undefined;
    let attempts = 1;
    let retryAfter: string | undefined;
    let refused = false;
    try {
      let answered = await post(message, deadlineAt, signal);
      if (
        answered.response.statusCode === 404 &&
        inSession !== undefined &&
        message.kind === 'request' &&
        // It belongs to a handshake in progress, which would wait for itself.
        !isOurs &&
        mayRetry('session_lost', 1, () => repeatable.has(message))
      ) {
        answered.response.resume();
        refused = true;
        await session.revive(inSession);
        refused = false;
        answered = await post(message, deadlineAt, signal);
      }
      const { response } = answered;
      if ((response.statusCode ?? 0) < 300) accepted.happened();
      attempts = answered.attempts;
      retryAfter = response.headers['retry-after'];
      if (message.kind !== 'request') return told(message, response);
      const taking = handshake ? remembering(response, deliver) : learning(message, deliver);
      await receive(message, response, taking, signal);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      const seconds = retryAfterSeconds(retryAfter, clock.now());
      throw error.with({
        ...(seconds !== undefined && { retryAfterSeconds: seconds }),
        ...(attempts > 1 && { attempts }),
        ...(!refused && mayHaveRun(error) && mattersTwice(message) && { outcomeUnknown: true }),
      });
    }
  }

  /** Whether executing a message twice makes a difference. */
  function mattersTwice(message: Message): boolean {
    return message.kind === 'request' && !repeatable.has(message);
  }

  function learning(request: Message, deliver: Deliver): Deliver {
    return async (message) => {
      if (message.kind === 'response' && message.members.has('result')) {
        if (request.method === 'tools/list') repeatable.learn(request, message);
        settings.learn(request);
      }
      await deliver(message);
    };
  }

  /** Reads the session from the answer to `initialize` before the answer is delivered. */
  function remembering(response: IncomingMessage, deliver: Deliver): Deliver {
    return async (message) => {
      if (message.kind === 'response')
        session.set(agreedSession(session.current(), message, response));
      await deliver(message);
    };
  }

  async function receive(
    request: Message,
    response: IncomingMessage,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    if (!isEventStream(response))
      return await deliver(await readAnswer(response, request, maxMessageBytes));
    const resume = async (lastEventId: string) => get(lastEventId, signal);
    return await streamedAnswer(request, response, { ...options, deliver, resume, signal });
  }

  async function close(signal: AbortSignal): Promise<void> {
    const ended = session.close();
    if (ended.id === undefined) return;
    const headers = sessionHeaders(ended);
    await authorizedRequest({ url, method: 'DELETE', headers, signal }, options).then(
      (response) => response.resume(),
      (error: unknown) => log.debug('session not ended', { reason: String(error) }),
    );
  }

  /** Sends a message without an answer, so a refusal is only logged. */
  function told({ method, kind }: Message, response: IncomingMessage): void {
    response.resume();
    const status = response.statusCode ?? 0;
    if (status >= 300) log.warn('message not accepted', { status, what: method ?? kind });
  }

  const listen: Upstream['listen'] = async (deliver, signal) =>
    sessionStream({ ...options, session, get, accepted }, deliver, signal);

  return { send: tracing ? tracedSend : send, listen, close };
}

/** A client whose requests have a span if they belong to a trace. */
function tracedHttp(http: HttpClient, tracing: Tracing): HttpClient {
  return {
    ...http,
    request: (request) =>
      tracing.within('POST', {}, request, async (traced) => http.request(traced)),
  };
}

/** The event id as a header value: the bytes of its UTF-8 text. */
function headerBytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
