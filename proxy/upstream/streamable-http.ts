import type { IncomingMessage } from 'node:http';
import type { Clock, EpochSeconds } from '#clock/clock';
import type { HttpClient } from '#http/http-client';
import { readMessage, type Message } from '#jsonrpc/message';
import type { Log } from '#log/log';
import { authorizedRequest } from './authorized-request.ts';
import type { Credential } from './credential.ts';
import { agreedSession, sessionHeaders, type LegacySession } from './legacy-session.ts';
import { modernHeaders } from './modern-headers.ts';
import { onceMore } from './once-more.ts';
import { patientRequest } from './patient-request.ts';
import { readAnswer } from './read-answer.ts';
import { readEvents, type StreamPosition } from './read-events.ts';
import { repeatableRequests } from './repeatable-requests.ts';
import { retryAfterSeconds } from './retry-after.ts';
import { retryMs } from './retry-ms.ts';
import { isEventStream, streamedAnswer } from './streamed-answer.ts';
import { mayHaveRun } from './may-have-run.ts';
import { UpstreamError, type Deliver, type Upstream } from './upstream.ts';

export type StreamableHttpOptions = {
  url: URL;
  credential: Credential;
  http: HttpClient;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
  /** More headers that a modern request carries. */
  toolHeaders?: (message: Message) => Record<string, string>;
  /** Whether something else can be said in the server's place, so that a broken connection is told at once. */
  hasStandIn?: (message: Message) => Promise<boolean>;
};

const initialized = readMessage(
  Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'),
);

/** What an assistant waits for an answer, in all. */
const patienceSeconds = 60;
const reviveTimeoutMs = 30_000;

/** A stream that stood this long was cut by something on the way, not refused. */
const steadySeconds = 10;

/**
 * Streamable HTTP in both eras: sessions with a stream of their own, resumption and DELETE up to
 * 2025-11-25, single exchanges since 2026-07-28. Which one a message belongs to is in the message.
 */
export function streamableHttp(options: StreamableHttpOptions): Upstream {
  const { url, clock, log, maxMessageBytes } = options;
  let session: LegacySession = {};
  let revival: Promise<void> | undefined;
  const life = new AbortController();
  const repeatable = repeatableRequests();

  async function postOnce(message: Message, signal: AbortSignal): Promise<IncomingMessage> {
    const modern = modernHeaders(message);
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(modern ? { ...modern, ...options.toolHeaders?.(message) } : sessionHeaders(session)),
    };
    return authorizedRequest(
      { url, method: 'POST', headers, body: message.bytes, signal },
      options,
    );
  }

  async function post(message: Message, patientUntil: EpochSeconds, signal: AbortSignal) {
    const isWorthIt = async () => !(await options.hasStandIn?.(message));
    const often = {
      isRepeatable: () => repeatable.has(message),
      isWorthIt,
      patientUntil,
      signal,
      clock,
      log,
    };
    return patientRequest(async () => postOnce(message, signal), often);
  }

  async function get(lastEventId: string | undefined, signal: AbortSignal) {
    const headers = {
      accept: 'text/event-stream',
      ...sessionHeaders(session),
      ...(lastEventId !== undefined && { 'last-event-id': headerBytes(lastEventId) }),
    };
    return authorizedRequest({ url, method: 'GET', headers, signal }, options);
  }

  async function send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const patientUntil = clock.now() + patienceSeconds;
    await revival?.catch(() => undefined);
    await onceMore(
      async () => exchange(message, deliver, signal, patientUntil),
      () => repeatable.has(message) && !signal.aborted && clock.now() < patientUntil,
    );
  }

  async function exchange(
    message: Message,
    deliver: Deliver,
    signal: AbortSignal,
    patientUntil = clock.now() + patienceSeconds,
  ): Promise<void> {
    const handshake = message.method === 'initialize' && modernHeaders(message) === undefined;
    if (handshake) session = { initialize: message };
    const inSession = modernHeaders(message) === undefined ? session.id : undefined;
    let attempts = 1;
    let retryAfter: string | undefined;
    let refused = false;
    try {
      let answered = await post(message, patientUntil, signal);
      if (
        answered.response.statusCode === 404 &&
        inSession !== undefined &&
        message.kind === 'request'
      ) {
        answered.response.resume();
        refused = true;
        await revive(inSession);
        refused = false;
        answered = await post(message, patientUntil, signal);
      }
      const { response } = answered;
      attempts = answered.attempts;
      retryAfter = response.headers['retry-after'];
      if (message.kind !== 'request') return accepted(message, response);
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

  /** Whether it is no matter of indifference if a message ran twice. */
  function mattersTwice(message: Message): boolean {
    return message.kind === 'request' && !repeatable.has(message);
  }

  function learning(request: Message, deliver: Deliver): Deliver {
    if (request.method !== 'tools/list') return deliver;
    return async (message) => {
      if (message.kind === 'response') repeatable.learn(request, message);
      await deliver(message);
    };
  }

  /** Reads the session off the answer to `initialize` before anyone acts on that. */
  function remembering(response: IncomingMessage, deliver: Deliver): Deliver {
    return async (message) => {
      if (message.kind === 'response') session = agreedSession(session, message, response);
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
      return deliver(await readAnswer(response, request, maxMessageBytes));
    const resume = async (lastEventId: string) => get(lastEventId, signal);
    return streamedAnswer(request, response, { ...options, deliver, resume, signal });
  }

  /** Makes the handshake anew, once for all requests that met the forgotten session. */
  async function revive(forgotten: string): Promise<void> {
    if (revival) return revival;
    if (session.id !== forgotten || !session.initialize) return;
    const before = session;
    const { initialize } = session;
    // Others wait for it too, so it does not end with the request that happened to begin it.
    const signal = AbortSignal.any([life.signal, AbortSignal.timeout(reviveTimeoutMs)]);
    revival = (async () => {
      log.info('session forgotten by the server, starting another');
      await exchange(initialize, () => Promise.resolve(), signal);
      await exchange(initialized, () => Promise.resolve(), signal);
    })()
      .catch((error: unknown) => {
        // The next request meets the 404 again and tries once more.
        session = before;
        throw error;
      })
      .finally(() => {
        revival = undefined;
      });
    await revival;
  }

  async function listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    let position: StreamPosition = {};
    let attempt = 0;
    while (session.id !== undefined && !signal.aborted) {
      const of = session.id;
      try {
        const stream = await get(position.lastEventId, signal);
        const status = stream.statusCode ?? 0;
        const openedAt = clock.now();
        const moved = await followed(stream, position, deliver);
        if (moved || clock.now() - openedAt > steadySeconds) attempt = 0;
        if (status >= 400 && status < 500 && status !== 404 && status !== 429) return;
        // A request that meets the same 404 starts the next session; this stream follows it.
        if (status === 404) {
          if (attempt > 0 && session.id === of) return;
          position = {};
        }
      } catch (error) {
        if (error instanceof UpstreamError && error.code === 'unauthorized') return;
        log.debug('stream not opened', { reason: error instanceof Error ? error.message : '' });
      }
      await clock.sleep(position.retryMs ?? retryMs(attempt), signal);
      attempt += 1;
    }
  }

  async function close(signal: AbortSignal): Promise<void> {
    life.abort();
    if (session.id === undefined) return;
    const headers = sessionHeaders(session);
    session = {};
    await authorizedRequest({ url, method: 'DELETE', headers, signal }, options).then(
      (response) => response.resume(),
      (error: unknown) => log.debug('session not ended', { reason: String(error) }),
    );
  }

  /** Nobody waits for an answer to these, so a refusal is only worth a line in the log. */
  function accepted({ method, kind }: Message, response: IncomingMessage): void {
    response.resume();
    const status = response.statusCode ?? 0;
    if (status >= 300) log.warn('message not accepted', { status, what: method ?? kind });
  }

  /** Reads a stream that was asked for by GET; a server may refuse one. */
  async function followed(response: IncomingMessage, position: StreamPosition, deliver: Deliver) {
    if (isEventStream(response)) return readEvents(response, position, deliver, options);
    response.resume();
    log.debug('no event stream', { status: response.statusCode });
    return false;
  }

  return { send, listen, close };
}

/** An event id is UTF-8 text, and a header takes the bytes of that. */
function headerBytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
