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
import { agreedSession, HeldSession, sessionHeaders, sessionSettings } from './session.ts';
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
  const { tracing } = options;
  if (!tracing) return new StreamableHttp(options);
  const traces: Traces = new WeakMap();
  return tracedUpstream(new StreamableHttp(options, traces), tracing, traces);
}

/** The `traceparent` of the span of each open request, for its HTTP requests. */
type Traces = WeakMap<Message, string>;

class StreamableHttp implements Upstream {
  readonly #options: StreamableHttpOptions;
  readonly #traces: Traces | undefined;
  /** The options of POST requests, the only ones with spans. */
  readonly #posting: StreamableHttpOptions;
  readonly #repeatable = repeatableRequests();
  readonly #accepted = recurringEvent();
  readonly #settings = sessionSettings();
  readonly #session: HeldSession;

  constructor(options: StreamableHttpOptions, traces?: Traces) {
    this.#options = options;
    this.#traces = traces;
    const { tracing, http } = options;
    this.#posting = tracing ? { ...options, http: tracedHttp(http, tracing) } : options;
    this.#session = new HeldSession({
      send: async (message, signal) => {
        const asking = { signal, deadlineAt: this.#deadline(), isOurs: true };
        await this.#exchange(message, () => Promise.resolve(), asking);
      },
      settings: () => this.#settings.all(),
      log: options.log,
    });
  }

  readonly send: Upstream['send'] = async (message, deliver, signal) => {
    const deadlineAt = this.#deadline();
    const revival = this.#session.revival();
    if (revival) await revival.catch(() => undefined);
    const mayRepeat = () =>
      this.#repeatable.has(message) && !signal.aborted && this.#options.clock.now() < deadlineAt;
    let taking = exceptLost(deliver, mayRepeat);
    await retryBrokenAnswer(async () => {
      const first = taking;
      taking = deliver;
      await this.#exchange(message, first, { signal, deadlineAt });
    }, mayRepeat);
  };

  readonly listen: Upstream['listen'] = async (deliver, signal) => {
    const get = async (lastEventId: string | undefined, within: AbortSignal) =>
      this.#get(lastEventId, within);
    const ports = { ...this.#options, session: this.#session, accepted: this.#accepted, get };
    return sessionStream(ports, deliver, signal);
  };

  readonly close: Upstream['close'] = async (signal) => {
    const ended = this.#session.close();
    if (ended.id === undefined) return;
    const { url, log } = this.#options;
    const headers = sessionHeaders(ended);
    await authorizedRequest({ url, method: 'DELETE', headers, signal }, this.#options).then(
      (response) => response.resume(),
      (error: unknown) => log.debug('session not ended', { reason: String(error) }),
    );
  };

  #deadline(): EpochSeconds {
    return this.#options.clock.now() + assistantTimeoutSeconds;
  }

  #postOnce(message: Message, signal: AbortSignal): Promise<IncomingMessage> {
    const { url, toolHeaders } = this.#options;
    const traceparent = this.#traces?.get(message);
    const modern = modernHeaders(message);
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(modern
        ? { ...modern, ...toolHeaders?.(message) }
        : sessionHeaders(this.#session.current())),
      // Modern servers that also answer `initialize` require the header on every POST.
      ...(message.method === 'initialize' && { 'mcp-method': 'initialize' }),
      ...(traceparent !== undefined && { traceparent }),
    };
    return authorizedRequest(
      { url, method: 'POST', headers, body: message.bytes, signal },
      this.#posting,
    );
  }

  #post(message: Message, deadlineAt: EpochSeconds, signal: AbortSignal) {
    return requestWithRetries(() => this.#postOnce(message, signal), {
      ...this.#options,
      isRepeatable: () => this.#repeatable.has(message),
      isWorthIt: async () => !(await this.#options.hasCachedAnswer?.(message)),
      deadlineAt,
      signal,
    });
  }

  async #get(lastEventId: string | undefined, signal: AbortSignal) {
    const headers = {
      accept: 'text/event-stream',
      ...sessionHeaders(this.#session.current()),
      ...(lastEventId !== undefined && { 'last-event-id': headerBytes(lastEventId) }),
    };
    const { url } = this.#options;
    return authorizedRequest({ url, method: 'GET', headers, signal }, this.#options);
  }

  async #exchange(
    message: Message,
    deliver: Deliver,
    { signal, deadlineAt, isOurs = false }: Asking,
  ): Promise<void> {
    const legacy = modernVersion(message) === undefined;
    const handshake = legacy && message.method === 'initialize';
    if (handshake && !isOurs) this.#settings.forget();
    if (handshake) this.#session.set({ initialize: message });
    const inSession = legacy ? this.#session.current().id : undefined;
    let attempts = 1;
    let retryAfter: string | undefined;
    let refused = false;
    try {
      let answered = await this.#post(message, deadlineAt, signal);
      if (
        answered.response.statusCode === 404 &&
        inSession !== undefined &&
        message.kind === 'request' &&
        // It belongs to a handshake in progress, which would wait for itself.
        !isOurs &&
        mayRetry('session_lost', 1, () => this.#repeatable.has(message))
      ) {
        answered.response.resume();
        refused = true;
        await this.#session.revive(inSession);
        refused = false;
        answered = await this.#post(message, deadlineAt, signal);
      }
      const { response } = answered;
      if ((response.statusCode ?? 0) < 300) this.#accepted.happened();
      attempts = answered.attempts;
      retryAfter = response.headers['retry-after'];
      if (message.kind !== 'request') return this.#logRefusal(message, response);
      const learning = handshake
        ? this.#learnSession(response, deliver)
        : this.#learnResult(message, deliver);
      await this.#receive(message, response, learning, signal);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      const seconds = retryAfterSeconds(retryAfter, this.#options.clock.now());
      // Executing it twice would make a difference.
      const isUnsafe = message.kind === 'request' && !this.#repeatable.has(message);
      throw error.with({
        ...(seconds !== undefined && { retryAfterSeconds: seconds }),
        ...(attempts > 1 && { attempts }),
        ...(!refused && isUnsafe && mayHaveRun(error) && { outcomeUnknown: true }),
      });
    }
  }

  #learnResult(request: Message, deliver: Deliver): Deliver {
    return async (message) => {
      if (message.kind === 'response' && message.members.has('result')) {
        if (request.method === 'tools/list') this.#repeatable.learn(request, message);
        this.#settings.learn(request);
      }
      await deliver(message);
    };
  }

  /** Reads the session from the answer to `initialize` before the answer is delivered. */
  #learnSession(response: IncomingMessage, deliver: Deliver): Deliver {
    return async (message) => {
      if (message.kind === 'response')
        this.#session.set(agreedSession(this.#session.current(), message, response));
      await deliver(message);
    };
  }

  async #receive(
    request: Message,
    response: IncomingMessage,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    if (!isEventStream(response))
      return await deliver(await readAnswer(response, request, this.#options.maxMessageBytes));
    const resume = async (lastEventId: string) => this.#get(lastEventId, signal);
    return await streamedAnswer(request, response, { ...this.#options, deliver, resume, signal });
  }

  /** Logs the refusal of a message that has no answer. */
  #logRefusal({ method, kind }: Message, response: IncomingMessage): void {
    response.resume();
    const status = response.statusCode ?? 0;
    if (status >= 300)
      this.#options.log.warn('message not accepted', { status, what: method ?? kind });
  }
}

/** An upstream with a span for each request, which continues the trace of the assistant if the request names one. */
function tracedUpstream(upstream: Upstream, tracing: Tracing, traces: Traces): Upstream {
  return {
    async send(message, deliver, signal) {
      const { kind, method, id } = message;
      if (kind !== 'request') return upstream.send(message, deliver, signal);
      const assistants = { traceparent: stringAt(message, 'params', '_meta', 'traceparent') };
      const attributes = { 'network.transport': 'pipe' };
      const span = tracing.begin('request', assistants, { kind: 'server', attributes });
      const name = stringAt(message, 'params', 'name');
      span.describe({ method, name, id }, modernVersion(message));
      traces.set(message, span.traceparent);
      try {
        await upstream.send(message, deliver, signal);
        span.end();
      } catch (error) {
        span.end(error instanceof UpstreamError ? error.code : 'unknown');
        throw error;
      }
    },
    listen: async (deliver, signal) => upstream.listen(deliver, signal),
    close: async (signal) => upstream.close(signal),
  };
}

/** A client whose requests have a span if they belong to a trace. */
function tracedHttp(http: HttpClient, tracing: Tracing): HttpClient {
  return {
    ...http,
    request: (request) =>
      tracing.within('POST', { 'network.transport': 'tcp' }, request, async (traced) =>
        http.request(traced),
      ),
  };
}

/** The event id as a header value: the bytes of its UTF-8 text. */
function headerBytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
