import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { backOffs, pauseMs } from '#clock/back-off';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '#clock/clock';
import {
  answerTo,
  idKey,
  modernVersion,
  readMessage,
  type Message,
} from 'latchkey-mcp/raw-message';
import { sseEvents, SseEventTooLarge } from 'latchkey-mcp/sse';
import type { Log } from '#log/log';
import { mayRetry } from './retry.ts';
import { UpstreamError, type Deliver } from './upstream.ts';
import { webUrl } from './web-url.ts';

/**
 * The answer in a response that is not an event stream. A JSON-RPC error with an error status is an answer too, whatever its
 * id, because the server may not have read ours.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 *
 * @throws {UpstreamError}
 */
export async function readAnswer(
  response: IncomingMessage,
  request: Message,
  maxMessageBytes: number,
): Promise<Message> {
  const status = response.statusCode ?? 0;
  const id = request.id ?? 'null';
  let body: Buffer | undefined;
  try {
    body = await readBody(response, maxMessageBytes);
  } catch (error) {
    throw new UpstreamError('no_answer', 'the response ended early', { status, cause: error });
  }
  if (!body)
    throw new UpstreamError('too_large', `the response is larger than ${maxMessageBytes} bytes`, {
      status,
    });
  const answer = parseAnswer(body);
  const succeeded = status >= 200 && status < 300;
  if (answer?.kind === 'response') {
    if (!succeeded && answer.members.has('error')) return answerTo(id, answer);
    if (succeeded && isFor(request, answer)) return answerTo(id, answer);
  }
  throw refusal(response, status, body);
}

/** Whether `answer` answers `request`: its id is the same, or `null`. */
function isFor(request: Message, answer: Message): boolean {
  if (answer.kind !== 'response' || request.id === undefined || answer.id === undefined)
    return false;
  if (answer.id === 'null' || answer.id === request.id) return true;
  return idKey(answer.id) === idKey(request.id);
}

function refusal(
  { headers, statusMessage }: IncomingMessage,
  status: number,
  body: Buffer,
): UpstreamError {
  const statusLine = `${status} ${statusMessage ?? ''}`.trim();
  if (status === 403)
    return new UpstreamError('forbidden', `the server answered ${statusLine}`, { status });
  if (status >= 300 && status < 400) {
    const target = headers.location ?? 'nowhere';
    return new UpstreamError('redirected', `the server answered ${statusLine}, to ${target}`, {
      status,
    });
  }
  const publicUrl = status === 421 ? publicUrlIn(body) : undefined;
  if (publicUrl !== undefined) {
    const why = `the server answered ${statusLine}: its public URL is ${publicUrl}`;
    const remedy = `if you trust that address, use the URL that begins with ${publicUrl}`;
    return new UpstreamError('redirected', why, { status, remedy });
  }
  if (status >= 400)
    return new UpstreamError('status', `the server answered ${statusLine}`, { status });
  if (status === 202 || status === 204)
    return new UpstreamError('no_answer', `the server answered ${statusLine}, without a result`, {
      status,
    });
  const type = headers['content-type'] ?? 'no content type';
  return new UpstreamError(
    'not_json_rpc',
    `the server answered ${statusLine} with ${type}, not with a JSON-RPC response`,
    { status },
  );
}

/** The origin of the public URL that a Latchkey server reports if a request used another host. */
function publicUrlIn(body: Buffer): string | undefined {
  const [, named = ''] = /"public_url":"([^"\\]{1,300})"/.exec(body.toString()) ?? [];
  return webUrl(named)?.origin;
}

function parseAnswer(body: Buffer): Message | undefined {
  try {
    return readMessage(body);
  } catch {
    return undefined;
  }
}

/**
 * The whole body, or `undefined` if it is longer than `maxBytes`. Uses event listeners, because an iterator of the stream costs
 * as much as everything else for a short answer.
 *
 * @throws {Error} if it breaks off
 */
export function readBody(response: IncomingMessage, maxBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const body = new GatheredBytes();
    let over = false;
    const brokenOff = () => {
      // Creates the error only when needed: its stack costs as much as everything else here.
      if (!over) reject(response.errored ?? new Error('the body ended early'));
    };
    response.on('data', (chunk: Buffer) => {
      if (body.length + chunk.length <= maxBytes) return body.add(chunk);
      over = true;
      resolve(undefined);
      response.destroy();
    });
    response.on('end', () => {
      over = true;
      resolve(body.whole());
    });
    response.on('error', brokenOff);
    response.on('close', brokenOff);
    if (response.destroyed) brokenOff();
  });
}

type StreamedAnswerOptions = {
  deliver: Deliver;
  /** Requests the rest of the stream, after the event with this id. */
  resume: (lastEventId: string) => Promise<IncomingMessage>;
  signal: AbortSignal;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/** How long a server may keep the stream open after its answer. */
const lingerMs = 5_000;

/**
 * Delivers the messages of a stream in response to `request`, including the answer. A stream that broke off is requested
 * again if its events have ids, even if the server is briefly unreachable.
 *
 * MCP 2025-11-25 transports, resumability
 *
 * @throws {UpstreamError} `no_answer`, `too_large`, `aborted`
 */
export async function streamedAnswer(
  request: Message,
  response: IncomingMessage,
  options: StreamedAnswerOptions,
): Promise<void> {
  const { deliver, resume, signal, clock, log } = options;
  const linger = new AbortController();
  let answered = false;
  let stream = response;
  const position: StreamPosition = {};
  const taking: Deliver = async (message) => {
    const mine = isFor(request, message);
    await deliver(mine ? answerTo(request.id ?? 'null', message) : message);
    if (!mine) return;
    answered = true;
    void clock.sleep(lingerMs, linger.signal).then(() => stream.destroy());
  };
  try {
    await readEvents(stream, position, taking, options);
    for (let attempt = 0; ;) {
      if (answered) return;
      if (signal.aborted) throw new UpstreamError('aborted', 'aborted');
      const { lastEventId } = position;
      if (lastEventId === undefined || modernVersion(request) !== undefined) throw endedEarly();
      if (!mayRetry('stream_ended', attempt, () => true)) throw endedEarly();
      await clock.sleep(position.retryMs ?? pauseMs(backOffs.stream, attempt), signal);
      try {
        stream = await resume(lastEventId);
      } catch (error) {
        if (!(error instanceof UpstreamError) || error.code !== 'unreachable') throw error;
        log.debug('stream not resumed', { reason: error.message });
        // The server's `retry` was not meant for the time when it is unreachable.
        await clock.sleep(pauseMs(backOffs.stream, attempt), signal);
        attempt += 1;
        continue;
      }
      if (!isEventStream(stream)) {
        stream.resume();
        log.debug('stream not resumed', { status: stream.statusCode });
        if (isFinal(stream)) throw endedEarly();
        attempt += 1;
        continue;
      }
      attempt = (await readEvents(stream, position, taking, options)) ? 0 : attempt + 1;
    }
  } finally {
    // Without a reason, Node makes a `DOMException`, with a stack, for each stream.
    linger.abort('the stream has ended');
  }
}

export function isEventStream({ statusCode, headers }: IncomingMessage): boolean {
  const type = headers['content-type'] ?? '';
  return statusCode === 200 && /^text\/event-stream\b/i.test(type);
}

/** Whether a server that answers like this will not resume the stream. */
function isFinal({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode < 500 && statusCode !== 429;
}

function endedEarly(): UpstreamError {
  return new UpstreamError('no_answer', 'the stream ended without the response', { status: 200 });
}

/** The position in a stream from which another one can continue. */
export type StreamPosition = { lastEventId?: string; retryMs?: number };

/**
 * Delivers the messages of an event stream until it ends or breaks off, which look the same to the caller. Ignores events of
 * other types and those that are not JSON-RPC. Updates `position`.
 *
 * @returns whether any event was received
 * @throws {UpstreamError} `too_large`
 */
export async function readEvents(
  response: IncomingMessage,
  position: StreamPosition,
  deliver: Deliver,
  { maxMessageBytes, log }: { maxMessageBytes: number; log: Log },
): Promise<boolean> {
  let moved = false;
  const events = sseEvents(response as AsyncIterable<Buffer>, {
    maxBytes: maxMessageBytes,
    printableIds: true,
  });
  for (;;) {
    const next = await events.next().catch((error: unknown) => {
      if (!(error instanceof SseEventTooLarge)) {
        log.debug('event stream broke off', { reason: String(error) });
        return { done: true as const, value: undefined };
      }
      response.destroy();
      throw new UpstreamError('too_large', `a message is larger than ${error.limit}`, {
        status: response.statusCode ?? 200,
      });
    });
    if (next.done) return moved;
    const { id, event, data, retryMs, isComment } = next.value;
    if (isComment) continue;
    moved = true;
    if (id !== undefined) position.lastEventId = id;
    if (retryMs !== undefined) position.retryMs = retryMs;
    const isMessage = (event || 'message') === 'message' && data.length > 0;
    const message = isMessage ? parseEvent(data, log) : undefined;
    if (message) await deliver(message);
  }
}

function parseEvent(data: Buffer, log: Log): Message | undefined {
  try {
    return readMessage(data);
  } catch (error) {
    log.warn('event is not a JSON-RPC message', { reason: String(error) });
    return undefined;
  }
}
