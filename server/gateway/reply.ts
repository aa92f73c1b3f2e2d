import type { EndSignal } from '#model/ending';
import { messageEvent, type SseEvent, SseEvents, SseEventTooLarge } from 'latchkey-mcp/sse';
import { TopLevelMembers } from 'latchkey-mcp/top-level-members';
import {
  bodyWithin,
  discard,
  eventsIn,
  failure,
  maxEventBytes,
  unfinished,
  wholeBody,
  type LongBody,
} from './answers.ts';
import type { Awaitable } from '#model/awaitable';
import { onEnd } from '#model/streams';
import {
  AnswerMessage,
  answeredAnother,
  filtered,
  isSameId,
  unreadable,
  type Filter,
} from './filters.ts';
import { GatewayRefusal, type RefusalCode } from './gateway-refusal.ts';
import type { HeldAnswers } from './held-answers.ts';
import { type ListChanges, withChanges } from './list-changes.ts';
import { live } from './live-stream.ts';
import { type AnsweredError, errorIn } from './answered-error.ts';
import type { AnsweredOutcome, AnswerFacts } from './metering.ts';
import type { LongAnswerSeal } from './long-answer-seal.ts';
import type { Accepts } from './read-message.ts';
import type { GatewayAnswer } from './request.ts';
import type { FollowedStream } from './session-streams.ts';
import type { UpstreamAnswer } from './upstream.ts';

const json = 'application/json';
const eventStream = 'text/event-stream';
/** JSON answers up to this length are read whole before any part of them is passed on. */
const heldBytes = 1024 * 1024;

/** The options that the caller's answer depends on, besides the upstream's answer. */
export interface ReplyOptions {
  readonly accepts: Accepts;
  readonly filters: readonly Filter[];
  /** The id, as JSON text, that a result must have, and whether the caller's message is a request; absent if any id is right. */
  readonly ownId?: { readonly id: string | undefined; readonly isRequest: boolean } | undefined;
  /** Seals the task ids and request states in a JSON answer that is too long to be held for the filters. */
  readonly sealLong?: (() => LongAnswerSeal) | undefined;
  /** Whether filters need the whole message, however long. */
  readonly isHeldWhole?: boolean;
  /** Whether the status is always 200, whatever the upstream's. */
  readonly isAlways200?: boolean | undefined;
  /** Whether an event stream is reduced to the one response in it. */
  readonly isSingle?: boolean;
  /** Events that the caller missed in the stream that this answer continues. */
  readonly missed?: AsyncIterable<Uint8Array> | undefined;
  /** The gateway's own events, sent between the events of the upstream's stream. */
  readonly changes?: ListChanges | undefined;
  /** Opens the session's stream, which numbers and stores events. */
  readonly stream?: (() => FollowedStream) | undefined;
  /** The largest answer that the server's limits allow, in bytes. */
  readonly maxBytes: number;
  /** Aborts when the call is ended. */
  readonly signal: EndSignal;
  /** Counts the memory that the call uses for the upstream's answers. */
  readonly held?: HeldAnswers;
  /** Called with how the answer ended. Only the first call has an effect. */
  readonly finish: (outcome: AnsweredOutcome, facts?: AnswerFacts) => void;
  /** Returns the error message that ends a stream which breaks off for a known reason; `undefined` for other reasons. */
  readonly report: ((error: unknown) => string | undefined) | undefined;
  /** Called with the refusal when a long JSON answer breaks off, because it is too late to send the refusal to the caller. */
  readonly cut: (refusal: GatewayRefusal) => void;
}

/**
 * Makes the caller's answer from only the status, media type and messages of the upstream's answer. The events of a stream pass the
 * filters one by one, and JSON as a whole. JSON over `heldBytes` with status 200 bypasses them as it arrives, unless `isHeldWhole`.
 *
 * @throws {GatewayRefusal}
 */
export function reply(answer: UpstreamAnswer, options: ReplyOptions): Awaitable<GatewayAnswer> {
  const { status, mediaType, body } = answer;
  const isShort = body instanceof Uint8Array && body.length <= heldBytes;
  // Nearly every answer to a call.
  if (isShort && status === 200 && mediaType === json && options.ownId?.isRequest !== false) {
    return single(200, passed(body, options, answer.message), options);
  }
  const isEvents = status === 200 && mediaType === eventStream && options.accepts.events;
  if (isShort && isEvents && !options.isSingle && !options.missed && !options.changes) {
    return wholeStream(body, options);
  }
  return replyOnce(answer, options);
}

async function replyOnce(answer: UpstreamAnswer, options: ReplyOptions): Promise<GatewayAnswer> {
  const { status, mediaType, body } = answer;
  const { accepts, ownId, held, finish } = options;
  const isDone = status === 202 || status === 204;
  // Only requests are answered, whatever some upstreams answer to other messages.
  if (isDone || (ownId?.isRequest === false && status === 200 && mediaType === json)) {
    await discard(body);
    finish('ok', { status: 202 });
    return { status: 202, headers: {} };
  }
  if (status === 200 && mediaType === eventStream) {
    if (accepts.events && !options.isSingle) {
      const { changes, signal, stream } = options;
      const theirs = eventsIn(body);
      const all = changes ? withChanges(theirs, changes, signal) : theirs;
      const events = streamed(all, options, stream?.());
      return { ...eventAnswer(live(events, options.report)), whenGivenUp: held?.whenGivenUp };
    }
    return single(200, await responseIn(eventsIn(body), options), options);
  }
  if (mediaType !== json) throw failure(answer);
  if (status === 200) {
    const read = options.isHeldWhole ? await wholeBody(body) : await bodyWithin(body, heldBytes);
    if (read instanceof Uint8Array) return single(200, passed(read, options), options);
    const long = longJson(await checkedStart(read, options), options);
    return { ...jsonAnswer(200, long), whenGivenUp: held?.whenGivenUp };
  }
  // A JSON-RPC error with 400 or 404, for example about a header or a version, is passed on for the caller to handle.
  if (status !== 400 && status !== 404) throw failure(answer);
  const message = new AnswerMessage(await wholeBody(body));
  if (ownId && !message.isError) throw failure({ ...answer, mediaType: '' });
  return single(status, passed(message.bytes, options), options);
}

/** One whole message as the answer. */
function single(status: number, message: AnswerMessage, options: ReplyOptions): GatewayAnswer {
  const { accepts, maxBytes, held, finish, isAlways200 } = options;
  const answer =
    accepts.json || status !== 200
      ? { ...jsonAnswer(isAlways200 ? 200 : status, message.bytes), body: message.bytes, message }
      : eventAnswer(messageEvent(message.bytes));
  if (message.bytes.length > maxBytes) throw tooLarge(maxBytes);
  held?.pass(message.bytes.length);
  const sent = held?.keep();
  const error = errorIn(message);
  const { length: bytes } = answer.body;
  finish(error ? 'tool-error' : 'ok', { ...error, status: answer.status, bytes });
  return sent ? { ...answer, sent, whenGivenUp: held?.whenGivenUp } : answer;
}

function passed(
  bytes: Uint8Array,
  { filters }: ReplyOptions,
  scanned?: UpstreamAnswer['message'],
): AnswerMessage {
  const message = filtered(AnswerMessage.of(bytes, scanned), filters);
  // The filters of a call drop only events. Only for a `GET`, `noResponses` may drop a JSON answer, which becomes empty.
  return message ?? new AnswerMessage(new Uint8Array());
}

/**
 * The one response in a stream of messages; notifications on the way to it are dropped.
 *
 * @throws {GatewayRefusal} `upstream_broke_off` when the stream ends without it, `upstream_too_large` for too large an event.
 */
async function responseIn(
  events: AsyncIterable<SseEvent>,
  { filters }: ReplyOptions,
): Promise<AnswerMessage> {
  for await (const { data } of events) {
    const message = new AnswerMessage(data);
    const isResponse =
      message.scan.outcome === 'message' && message.scan.envelope.kind === 'response';
    const kept = isResponse ? filtered(message, filters) : undefined;
    if (kept) return kept;
  }
  throw new GatewayRefusal('upstream_broke_off', {
    detail: 'its response ended before the result',
  });
}

/** Turns the events of one answer into the bytes that its caller gets. */
class PassedEvents {
  /** The first error among the events, if there is one. */
  error: AnsweredError | undefined;
  readonly #options: ReplyOptions;
  readonly #stream: FollowedStream | undefined;
  #bytes = 0;

  constructor(options: ReplyOptions, stream: FollowedStream | undefined) {
    this.#options = options;
    this.#stream = stream;
  }

  /** The bytes to send for an event; `undefined` if the caller does not get it on this connection. @throws {GatewayRefusal} */
  pass(event: SseEvent): Uint8Array | undefined {
    const { filters, maxBytes } = this.#options;
    let sent: Uint8Array | undefined = event.raw;
    if (event.data.length > 0) {
      const message = filtered(new AnswerMessage(event.data, event), filters);
      if (!message) return undefined;
      this.error ??= errorIn(message);
      sent = this.#stream ? this.#stream.push(message) : message.eventBytes;
    } else if (this.#stream) sent = this.#stream.pushComment(event);
    // Another connection has resumed the stream.
    if (!sent) return undefined;
    this.#bytes += sent.length;
    if (this.#bytes > maxBytes) throw tooLarge(maxBytes);
    return sent;
  }

  /** Notes that all events have been passed. */
  finish(): void {
    this.#options.finish(this.error ? 'tool-error' : 'ok', { ...this.error, ...this.facts });
  }

  /** The facts to record about the part of the answer that was sent so far. */
  get facts(): AnswerFacts {
    return { status: 200, bytes: this.#bytes };
  }
}

/** The events as the caller gets them, one by one. */
async function* streamed(
  events: AsyncIterable<SseEvent>,
  options: ReplyOptions,
  stream: FollowedStream | undefined,
): AsyncGenerator<Uint8Array> {
  const { signal, held, finish, missed } = options;
  const passing = new PassedEvents(options, stream);
  try {
    if (missed) yield* missed;
    const primer = stream?.begin();
    if (primer) yield primer;
    for await (const event of events) {
      const sent = passing.pass(event);
      if (!sent) continue;
      held?.pass(sent.length);
      yield sent;
      held?.passed();
    }
    // A stream can be cut off without an error. It must not look as if it were complete.
    const slowness = slownessIn(signal);
    if (slowness) throw slowness;
    passing.finish();
  } catch (cause) {
    throw ended(cause, options, passing.facts);
  } finally {
    stream?.end();
    finish('ok', { ...passing.facts, end: 'cancelled' });
  }
}

/**
 * Answers with the events of a complete stream as one body. A failure on the way is reported in its last event, as in
 * any stream.
 */
function wholeStream(body: Uint8Array, options: ReplyOptions): GatewayAnswer {
  const { held, report } = options;
  const stream = options.stream?.();
  const passing = new PassedEvents(options, stream);
  const chunks: Uint8Array[] = [];
  try {
    const primer = stream?.begin();
    if (primer) chunks.push(primer);
    for (const event of new SseEvents({ maxBytes: maxEventBytes }).push(body)) {
      const part = passing.pass(event);
      if (part) chunks.push(part);
    }
    // `splice` empties `chunks`, so if there is no memory for them, the caller gets the error alone.
    const whole = joined(chunks.splice(0));
    held?.pass(whole.length);
    const sent = held?.keep();
    passing.finish();
    return { ...eventAnswer(whole), ...(sent && { sent, whenGivenUp: held?.whenGivenUp }) };
  } catch (cause) {
    const isTooLarge = cause instanceof SseEventTooLarge;
    const error = ended(isTooLarge ? unfinished(cause) : cause, options, passing.facts);
    const message = report?.(error);
    if (message === undefined) throw error;
    return eventAnswer(joined([...chunks, messageEvent(Buffer.from(message))]));
  } finally {
    stream?.end();
  }
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only, ...others] = chunks;
  return only && others.length === 0 ? only : Buffer.concat(chunks);
}

/** Notes how an answer broke off. If a refusal ended the call, that refusal counts as the cause, not the break that followed. */
function ended(cause: unknown, { signal, finish }: ReplyOptions, facts: AnswerFacts): unknown {
  const error = slownessIn(signal) ?? cause;
  const isAbort = error instanceof Error && error.name === 'AbortError';
  if (isAbort) finish('ok', { ...facts, end: 'cancelled' });
  else finish('upstream-error', { ...facts, error: codeOf(error) });
  return error;
}

function codeOf(error: unknown): RefusalCode {
  return error instanceof GatewayRefusal ? error.code : 'upstream_broke_off';
}

/** The refusal that ended a call, such as for taking too long; `undefined` if no refusal did. */
export function slownessIn({ aborted, reason }: EndSignal): GatewayRefusal | undefined {
  return aborted && reason instanceof GatewayRefusal ? reason : undefined;
}

function tooLarge(maxBytes: number): GatewayRefusal {
  const detail = `its response is larger than the ${maxBytes} bytes that this server allows`;
  return new GatewayRefusal('upstream_too_large', { detail });
}

/** A long JSON answer, with the top-level members that show which request it answers. */
interface CheckedLong extends LongBody {
  readonly members: TopLevelMembers | undefined;
}

/** Checks the part that has arrived, because a refusal can still be sent as the answer as long as nothing has been passed on. */
async function checkedStart(long: LongBody, options: ReplyOptions): Promise<CheckedLong> {
  const members = options.ownId && new TopLevelMembers();
  const heldSoFar = long.held.reduce((sum, { length }) => sum + length, 0);
  try {
    if (heldSoFar > options.maxBytes) throw tooLarge(options.maxBytes);
    if (members) for (const chunk of long.held) check(members, chunk, options);
  } catch (refusal) {
    await long.rest.return?.();
    throw refusal;
  }
  return { ...long, members };
}

/** Passes the answer on as it arrives, sealed, but withholds the end of a result for another request. */
async function* longJson(
  { held, rest, letGo, members }: CheckedLong,
  options: ReplyOptions,
): AsyncGenerator<Uint8Array> {
  const { maxBytes, signal, finish, cut } = options;
  const sealing = options.sealLong?.();
  let bytes = 0;
  try {
    for (let chunk = held.shift(); chunk; chunk = held.shift()) {
      bytes += chunk.length;
      yield sealing?.push(chunk) ?? chunk;
    }
    for (;;) {
      letGo?.();
      const next = await rest.next().catch((cause: unknown) => {
        throw unfinished(cause);
      });
      if (next.done) break;
      bytes += next.value.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      if (members) check(members, next.value, options);
      yield sealing?.push(next.value) ?? next.value;
    }
    if (members && !members.isComplete) throw unreadable('it ends early');
    const slowness = slownessIn(signal);
    if (slowness) throw slowness;
    finish('ok', { status: 200, bytes });
  } catch (cause) {
    const error = ended(cause, options, { status: 200, bytes });
    if (error instanceof GatewayRefusal) cut(error);
    throw error;
  } finally {
    finish('ok', { status: 200, bytes, end: 'cancelled' });
    await rest.return?.();
  }
}

/** Checks which request a message answers, before the chunk that completes the message is passed on. */
function check(members: TopLevelMembers, chunk: Uint8Array, { ownId }: ReplyOptions): void {
  members.push(chunk);
  if (members.isBroken) throw unreadable('it is not one JSON object');
  if (!members.isComplete || !members.hasResult) return;
  const [answered, ...others] = members.ids;
  if (others.length > 0 || !isSameId(answered, ownId?.id)) throw answeredAnother();
}

export function jsonAnswer(
  status: number,
  body: NonNullable<GatewayAnswer['body']>,
): GatewayAnswer {
  return { status, headers: { 'Content-Type': json, 'Cache-Control': 'no-store' }, body };
}

/** The answer that sends events. */
function eventAnswer<Body extends NonNullable<GatewayAnswer['body']>>(
  body: Body,
): GatewayAnswer & { readonly body: Body } {
  const headers = {
    'Content-Type': eventStream,
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  };
  return { status: 200, headers, body };
}

/** An answer with the stored events of a session's streams, followed by the new ones. */
export function resumed(
  chunks: AsyncIterable<Uint8Array>,
  finish: ReplyOptions['finish'],
): GatewayAnswer {
  return eventAnswer(live(onEnd(chunks, () => finish('ok'))));
}
