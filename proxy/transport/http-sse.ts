import { initialized } from './session.ts';
import { backOffs, pauseMs } from '#clock/back-off';
import type { IncomingMessage } from 'node:http';
import { answerTo, idKey, readMessage, type Message } from 'latchkey-mcp/raw-message';
import { sseEvents, SseEventTooLarge } from 'latchkey-mcp/sse';
import { authorizedRequest } from './credential.ts';
import { mayHaveRun, retryBrokenAnswer, repeatableRequests, mayRetry } from './retry.ts';
import type { StreamableHttpOptions } from './streamable-http.ts';
import { unlessAborted, UpstreamError, type Deliver, type Upstream } from './upstream.ts';

/** An `Upstream` over the oldest transport. It can be tried before use. */
export interface HttpSse extends Upstream {
  /**
   * Opens the stream, unless it is open.
   *
   * @throws {UpstreamError} `status` if the server has no such stream
   */
  open(): Promise<void>;
}

type Stream = { endpoint: URL; over: Promise<void>; cut: () => void };

const endpointMs = 10_000;

/**
 * HTTP+SSE: one stream, requested with GET, whose first event contains the URL that messages are posted to. That URL must have
 * the same origin, because the credential is sent there. A stream that broke off is opened again, with a new handshake.
 *
 * MCP 2024-11-05 transports
 */
export function httpSse(options: StreamableHttpOptions): HttpSse {
  const { url, clock, log, maxMessageBytes } = options;
  const life = new AbortController();
  const answers = awaitedAnswers();
  const repeatable = repeatableRequests();
  let stream: Stream | undefined;
  let opening: Promise<Stream> | undefined;
  let handshake: Message | undefined;
  let unasked: Deliver | undefined;
  let again = 0;

  async function opened(): Promise<Stream> {
    opening ??= (stream ? Promise.resolve(stream) : connect()).finally(() => {
      opening = undefined;
    });
    return opening;
  }

  async function connect(): Promise<Stream> {
    const ending = new AbortController();
    const signal = AbortSignal.any([life.signal, ending.signal]);
    const cut = () => ending.abort();
    const impatience = new AbortController();
    const limit = AbortSignal.any([signal, impatience.signal]);
    void clock.sleep(endpointMs, limit).then(() => impatience.signal.aborted || cut());
    try {
      const headers = { accept: 'text/event-stream' };
      const response = await authorizedRequest({ url, method: 'GET', headers, signal }, options);
      const status = response.statusCode ?? 0;
      if (
        status !== 200 ||
        !/^text\/event-stream\b/i.test(response.headers['content-type'] ?? '')
      ) {
        response.resume();
        throw new UpstreamError('status', `the server answered GET with ${status}`, { status });
      }
      const { promise: endpoint, resolve, reject } = Promise.withResolvers<URL>();
      const over = follow(response, resolve)
        .catch((error: unknown) => error)
        .then((error) => {
          stream = undefined;
          const broken = error instanceof UpstreamError ? error : brokenOff(error);
          reject(broken);
          answers.fail(broken);
        });
      const made = { endpoint: await endpoint, over, cut };
      stream = made;
      if (handshake) await repeatHandshake(made, handshake);
      return made;
    } catch (error) {
      cut();
      throw error;
    } finally {
      impatience.abort();
    }
  }

  async function follow(response: IncomingMessage, found: (endpoint: URL) => void): Promise<void> {
    try {
      const body = response as AsyncIterable<Buffer>;
      for await (const { event, data } of sseEvents(body, { maxBytes: maxMessageBytes })) {
        if (event === 'endpoint') found(sameOrigin(data.toString()));
        else if ((event || 'message') === 'message' && data.length > 0) await take(data);
      }
    } catch (error) {
      response.destroy();
      if (!(error instanceof SseEventTooLarge)) throw error;
      const message = `a message is larger than ${error.limit}`;
      throw new UpstreamError('too_large', message, { status: 200 });
    }
  }

  function sameOrigin(endpoint: string): URL {
    const target = URL.canParse(endpoint, url.href) ? new URL(endpoint, url) : undefined;
    if (target?.origin === url.origin) return target;
    const where = target?.origin ?? 'nowhere';
    throw new UpstreamError(
      'redirected',
      `the server announces another origin for messages: ${where}`,
    );
  }

  async function take(data: Buffer): Promise<void> {
    let message: Message;
    try {
      message = readMessage(data);
    } catch (error) {
      return log.warn('event is not a JSON-RPC message', { reason: String(error) });
    }
    if (message.kind !== 'response') return unasked?.(message);
    if (await answers.take(message)) return;
    log.debug('answer to no open request dropped', { id: message.id });
  }

  async function post(
    { endpoint, cut }: Stream,
    message: Message,
    signal: AbortSignal,
  ): Promise<void> {
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    const body = message.bytes;
    const request = { url: endpoint, method: 'POST' as const, headers, body, signal };
    const response = await authorizedRequest(request, options);
    response.resume();
    const status = response.statusCode ?? 0;
    if (status === 404) cut();
    if (status >= 200 && status < 300) return;
    throw new UpstreamError('status', `the server answered ${status}`, { status });
  }

  const ask = (to: Stream, message: Message, deliver: Deliver, signal: AbortSignal) =>
    answers.ask(message, deliver, { send: () => post(to, message, signal), signal });

  async function repeatHandshake(to: Stream, message: Message): Promise<void> {
    log.info('stream opened again, making the handshake again', {});
    again += 1;
    const whole = `{"jsonrpc":"2.0","id":"latchkey-again-${again}","method":"initialize","params":`;
    const { start, end } = message.members.get('params') ?? { start: 0, end: 0 };
    const params = end > start ? message.bytes.toString('utf8', start, end) : '{}';
    const request = readMessage(Buffer.from(`${whole}${params}}`));
    await ask(to, request, () => Promise.resolve(), life.signal);
    await post(to, initialized, life.signal);
  }

  async function send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const harmless = message.kind !== 'request' || repeatable.has(message);
    const taking: Deliver = async (answer) => {
      if (message.method === 'tools/list') repeatable.learn(message, answer);
      await deliver(answer);
    };
    try {
      await retryBrokenAnswer(
        async () => exchange(message, taking, signal),
        () => harmless && !signal.aborted && !life.signal.aborted,
      );
    } catch (error) {
      if (harmless || !mayHaveRun(error)) throw error;
      throw error.with({ outcomeUnknown: true });
    }
  }

  async function exchange(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    unasked ??= deliver;
    if (message.method === 'initialize') {
      // Each stream has its own handshake.
      if (handshake) stream?.cut();
      if (handshake) await stream?.over;
      handshake = undefined;
    }
    const to = await unlessAborted(opened(), signal);
    if (message.kind !== 'request') return post(to, message, signal);
    await ask(to, message, deliver, signal).catch(async (error: unknown) => {
      const gone = error instanceof UpstreamError && error.status === 404 && handshake;
      if (!gone || !mayRetry('session_lost', 1, () => repeatable.has(message))) throw error;
      // The server no longer knows this URL, so it has not executed the request.
      await to.over;
      await ask(await unlessAborted(opened(), signal), message, deliver, signal);
    });
    if (message.method === 'initialize') handshake = message;
  }

  async function listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    unasked = deliver;
    for (let attempt = 0; !signal.aborted && !life.signal.aborted; attempt += 1) {
      try {
        const { over } = await unlessAborted(opened(), signal);
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

  return {
    open: async () => void (await opened()),
    send,
    listen,
    close() {
      life.abort();
      return Promise.resolve();
    },
  };
}

function brokenOff(cause: unknown): UpstreamError {
  return new UpstreamError('no_answer', 'the stream ended early', { cause });
}

/** Requests whose answers arrive on another connection. */
interface AwaitedAnswers {
  /**
   * Sends a request and resolves when its answer has been delivered.
   *
   * @throws {UpstreamError} `aborted`, what `send` rejects with, or what `fail` was given
   */
  ask(
    message: Message,
    deliver: Deliver,
    { send, signal }: { readonly send: () => Promise<void>; readonly signal: AbortSignal },
  ): Promise<void>;

  /** Delivers an answer to its request. Returns `false` if there is none. */
  take(answer: Message): Promise<boolean>;

  /** Fails all open requests. */
  fail(error: UpstreamError): void;
}

type Waiting = { id: string; deliver: Deliver; resolve: () => void; fail: (e: Error) => void };

/** The open requests by id. */
function awaitedAnswers(): AwaitedAnswers {
  const waiting = new Map<string, Waiting>();

  return {
    async ask(message, deliver, { send, signal }) {
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

    async take(answer) {
      const asker = waiting.get(idKey(answer.id ?? 'null'));
      if (!asker) return false;
      await asker.deliver(answerTo(asker.id, answer));
      asker.resolve();
      return true;
    },

    fail(error) {
      for (const { fail } of waiting.values()) fail(error);
    },
  };
}
