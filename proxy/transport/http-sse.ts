import { initialized } from './session.ts';
import { backOffs, pauseMs } from '#clock/back-off';
import type { IncomingMessage } from 'node:http';
import { answerTo, idKey, readMessage, type Message } from 'latchkey-mcp/raw-message';
import { sseEvents, SseEventTooLarge } from 'latchkey-mcp/sse';
import { authorizedRequest } from './credential.ts';
import { mayHaveRun, retryBrokenAnswer, repeatableRequests, mayRetry } from './retry.ts';
import type { StreamableHttpOptions } from './streamable-http.ts';
import { unlessAborted, UpstreamError, type Deliver, type Upstream } from './upstream.ts';

/** An `Upstream` over the oldest transport. `open` tries the transport before it is used. */
export type HttpSse = Upstream & Pick<SseUpstream, 'open'>;

type Stream = { endpoint: URL; over: Promise<void>; cut: () => void };

const endpointMs = 10_000;

/**
 * HTTP+SSE: one stream, requested with GET, whose first event contains the URL that messages are posted to. That URL must have
 * the same origin, because the credential is sent there. A stream that broke off is opened again, with a new handshake.
 *
 * MCP 2024-11-05 transports
 */
export function httpSse(options: StreamableHttpOptions): HttpSse {
  return new SseUpstream(options);
}

class SseUpstream implements Upstream {
  readonly #options: StreamableHttpOptions;
  readonly #life = new AbortController();
  readonly #answers = awaitedAnswers();
  readonly #repeatable = repeatableRequests();
  #stream: Stream | undefined;
  #opening: Promise<Stream> | undefined;
  /** The assistant's `initialize`, repeated in each new stream. */
  #handshake: Message | undefined;
  #handshakes = 0;
  /** Receives what the server sends on its own. */
  #unsolicited: Deliver | undefined;

  constructor(options: StreamableHttpOptions) {
    this.#options = options;
  }

  /**
   * Opens the stream, unless it is open.
   *
   * @throws {UpstreamError} `status` if the server has no such stream
   */
  async open(): Promise<void> {
    await this.#opened();
  }

  async send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const harmless = message.kind !== 'request' || this.#repeatable.has(message);
    const learning: Deliver = async (answer) => {
      if (message.method === 'tools/list') this.#repeatable.learn(message, answer);
      await deliver(answer);
    };
    try {
      await retryBrokenAnswer(
        async () => this.#exchange(message, learning, signal),
        () => harmless && !signal.aborted && !this.#life.signal.aborted,
      );
    } catch (error) {
      if (harmless || !mayHaveRun(error)) throw error;
      throw error.with({ outcomeUnknown: true });
    }
  }

  async listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    this.#unsolicited = deliver;
    for (let attempt = 0; !signal.aborted && !this.#life.signal.aborted; attempt += 1) {
      try {
        const { over } = await unlessAborted(this.#opened(), signal);
        const openedAt = clock.now();
        await unlessAborted(over, signal);
        if (clock.now() > openedAt) attempt = 0;
      } catch (error) {
        if (error instanceof UpstreamError && error.code === 'unauthorized') return;
        log.debug('stream not opened', { reason: error instanceof Error ? error.message : '' });
      }
      await clock.sleep(pauseMs(backOffs.stream, attempt), signal);
    }
  }

  close(): Promise<void> {
    this.#life.abort();
    return Promise.resolve();
  }

  async #opened(): Promise<Stream> {
    this.#opening ??= (this.#stream ? Promise.resolve(this.#stream) : this.#connect()).finally(
      () => {
        this.#opening = undefined;
      },
    );
    return this.#opening;
  }

  async #connect(): Promise<Stream> {
    const { url, clock } = this.#options;
    const ending = new AbortController();
    const signal = AbortSignal.any([this.#life.signal, ending.signal]);
    const cut = () => ending.abort();
    const ready = new AbortController();
    const limit = AbortSignal.any([signal, ready.signal]);
    void clock.sleep(endpointMs, limit).then(() => ready.signal.aborted || cut());
    try {
      const headers = { accept: 'text/event-stream' };
      const asked = { url, method: 'GET' as const, headers, signal };
      const response = await authorizedRequest(asked, this.#options);
      refuseOther(response);
      const { promise: endpoint, resolve, reject } = Promise.withResolvers<URL>();
      const over = this.#follow(response, resolve)
        .catch((error: unknown) => error)
        .then((error) => {
          this.#stream = undefined;
          const broken = error instanceof UpstreamError ? error : brokenOff(error);
          reject(broken);
          this.#answers.fail(broken);
        });
      const made = { endpoint: await endpoint, over, cut };
      this.#stream = made;
      if (this.#handshake) await this.#repeatHandshake(made, this.#handshake);
      return made;
    } catch (error) {
      cut();
      throw error;
    } finally {
      ready.abort();
    }
  }

  /** Takes the events of a stream. `found` is called with the URL for messages. */
  async #follow(response: IncomingMessage, found: (endpoint: URL) => void): Promise<void> {
    const { url, maxMessageBytes: maxBytes } = this.#options;
    try {
      const body = response as AsyncIterable<Buffer>;
      for await (const { event, data } of sseEvents(body, { maxBytes })) {
        if (event === 'endpoint') found(sameOrigin(data.toString(), url));
        else if ((event || 'message') === 'message' && data.length > 0) await this.#take(data);
      }
    } catch (error) {
      response.destroy();
      if (!(error instanceof SseEventTooLarge)) throw error;
      const message = `a message is larger than ${error.limit}`;
      throw new UpstreamError('too_large', message, { status: 200 });
    }
  }

  async #take(data: Buffer): Promise<void> {
    const { log } = this.#options;
    let message: Message;
    try {
      message = readMessage(data);
    } catch (error) {
      return log.warn('event is not a JSON-RPC message', { reason: String(error) });
    }
    if (message.kind !== 'response') return this.#unsolicited?.(message);
    if (await this.#answers.take(message)) return;
    log.debug('answer to no open request dropped', { id: message.id });
  }

  async #post(
    { endpoint, cut }: Stream,
    { bytes: body }: Message,
    signal: AbortSignal,
  ): Promise<void> {
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    const request = { url: endpoint, method: 'POST' as const, headers, body, signal };
    const response = await authorizedRequest(request, this.#options);
    response.resume();
    const status = response.statusCode ?? 0;
    if (status === 404) cut();
    if (status >= 200 && status < 300) return;
    throw new UpstreamError('status', `the server answered ${status}`, { status });
  }

  #ask(to: Stream, message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const send = () => this.#post(to, message, signal);
    return this.#answers.ask(message, deliver, { send, signal });
  }

  async #repeatHandshake(to: Stream, message: Message): Promise<void> {
    this.#options.log.info('stream opened again, making the handshake again', {});
    this.#handshakes += 1;
    const id = `latchkey-again-${this.#handshakes}`;
    const { start, end } = message.members.get('params') ?? { start: 0, end: 0 };
    const params = end > start ? message.bytes.toString('utf8', start, end) : '{}';
    const request = readMessage(
      Buffer.from(`{"jsonrpc":"2.0","id":"${id}","method":"initialize","params":${params}}`),
    );
    await this.#ask(to, request, () => Promise.resolve(), this.#life.signal);
    await this.#post(to, initialized, this.#life.signal);
  }

  async #exchange(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    this.#unsolicited ??= deliver;
    if (message.method === 'initialize') {
      // Each stream has its own handshake.
      if (this.#handshake) this.#stream?.cut();
      if (this.#handshake) await this.#stream?.over;
      this.#handshake = undefined;
    }
    const to = await unlessAborted(this.#opened(), signal);
    if (message.kind !== 'request') return this.#post(to, message, signal);
    await this.#ask(to, message, deliver, signal).catch(async (error: unknown) => {
      const gone = error instanceof UpstreamError && error.status === 404 && this.#handshake;
      if (!gone || !mayRetry('session_lost', 1, () => this.#repeatable.has(message))) throw error;
      // The server no longer knows this URL, so it has not executed the request.
      await to.over;
      await this.#ask(await unlessAborted(this.#opened(), signal), message, deliver, signal);
    });
    if (message.method === 'initialize') this.#handshake = message;
  }
}

/** @throws {UpstreamError} `status` if the response is no event stream */
function refuseOther(response: IncomingMessage): void {
  const { statusCode: status = 0, headers } = response;
  if (status === 200 && /^text\/event-stream\b/i.test(headers['content-type'] ?? '')) return;
  response.resume();
  throw new UpstreamError('status', `the server answered GET with ${status}`, { status });
}

/** @throws {UpstreamError} `redirected` if `endpoint` has another origin than `url` */
function sameOrigin(endpoint: string, url: URL): URL {
  const target = URL.canParse(endpoint, url.href) ? new URL(endpoint, url) : undefined;
  if (target?.origin === url.origin) return target;
  const where = target?.origin ?? 'nowhere';
  throw new UpstreamError(
    'redirected',
    `the server announces another origin for messages: ${where}`,
  );
}

function brokenOff(cause: unknown): UpstreamError {
  return new UpstreamError('no_answer', 'the stream ended early', { cause });
}

type Waiting = { id: string; deliver: Deliver; resolve: () => void; fail: (e: Error) => void };

/** The open requests, by id. Their answers arrive on another connection. */
function awaitedAnswers() {
  const waiting = new Map<string, Waiting>();
  return {
    /**
     * Sends a request and resolves when its answer has been delivered.
     *
     * @throws {UpstreamError} `aborted`, the error of `send`, or the error that was passed to `fail`
     */
    async ask(
      message: Message,
      deliver: Deliver,
      { send, signal }: { readonly send: () => Promise<void>; readonly signal: AbortSignal },
    ): Promise<void> {
      const id = message.id ?? 'null';
      const key = idKey(id);
      const { promise, resolve, reject: fail } = Promise.withResolvers<void>();
      const stop = () => fail(new UpstreamError('aborted', 'aborted'));
      promise.catch(() => undefined);
      waiting.set(key, { id, deliver, resolve, fail });
      signal.addEventListener('abort', stop, { once: true });
      try {
        if (signal.aborted) stop();
        const sent = send();
        const accepted = async () => {
          await sent;
          await promise;
        };
        // `send` tells whether the server accepted the request, even if the stream had ended before.
        const answered = async () => {
          try {
            await promise;
          } catch (error) {
            await sent;
            throw error;
          }
        };
        await Promise.race([answered(), accepted()]);
      } finally {
        waiting.delete(key);
        signal.removeEventListener('abort', stop);
      }
    },

    /** Delivers an answer to its request. Returns `false` if no such request is open. */
    async take(answer: Message): Promise<boolean> {
      const request = waiting.get(idKey(answer.id ?? 'null'));
      if (!request) return false;
      await request.deliver(answerTo(request.id, answer));
      request.resolve();
      return true;
    },

    /** Fails all open requests. */
    fail(error: UpstreamError): void {
      for (const { fail } of waiting.values()) fail(error);
    },
  };
}
