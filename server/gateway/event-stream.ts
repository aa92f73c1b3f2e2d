import { GatewayRefusal } from './gateway-refusal.ts';
import { scanMessage } from './json-scan.ts';
import type { LegacySession } from './legacy-sessions.ts';
import type { ResumableStream } from './resumable-stream.ts';
import type { UpstreamAnswer } from './upstream.ts';
import type { SseEvent } from './sse-event.ts';
import { SseEvents, SseEventTooLarge } from './sse-events.ts';

const maxEventBytes = 64 * 1024 * 1024;
const maxPendingRequests = 1000;

/** A body as an upstream gives it: whole, or as it comes. */
type Body = UpstreamAnswer['body'];

/** The events of a body as they come, each of up to `maxBytes`. */
export async function* eventsIn(body: Body, maxBytes = maxEventBytes): AsyncGenerator<SseEvent> {
  const splitter = new SseEvents({ maxBytes });
  try {
    if (body instanceof Uint8Array) return yield* splitter.push(body);
    for await (const chunk of body) yield* splitter.push(chunk);
  } catch (cause) {
    throw unfinished(cause);
  }
}

/** What stands for an answer that could not be read to its end; what we ended ourselves is no fault. */
export function unfinished(cause: unknown): Error {
  if (cause instanceof SseEventTooLarge) {
    return new GatewayRefusal('upstream_failed', { detail: 'its answer is too large', cause });
  }
  const isOurs = cause instanceof GatewayRefusal;
  if (isOurs || (cause instanceof Error && cause.name === 'AbortError')) return cause;
  return new GatewayRefusal('upstream_failed', { detail: 'its answer broke off', cause });
}

/**
 * The one response in a stream of messages, for a caller who takes JSON only; notifications on the
 * way to it are dropped.
 *
 * @throws {GatewayRefusal} `upstream_failed` when the stream ends without it, or holds too large an event.
 */
export async function responseIn(body: Body): Promise<Uint8Array> {
  for await (const { data } of eventsIn(body)) {
    const scan = scanMessage(data);
    if (scan.outcome === 'message' && scan.envelope.kind === 'response') return data;
  }
  throw new GatewayRefusal('upstream_failed', { detail: 'its answer ended before the result' });
}

/**
 * The events of a body as those of a session's stream, for as long as the caller reads it. Notes which
 * requests of the upstream now wait for the caller's response. `isPrimed` begins with an event that says
 * nothing, so that a caller who loses the stream before the first can come back.
 *
 * What is said unasked answers nothing: a response there would be taken for that of a request which is still under way,
 * by its id alone, and nobody would have looked at it as such.
 */
export async function* followed(
  body: Body,
  session: LegacySession,
  stream: ResumableStream,
  isPrimed = false,
): AsyncGenerator<Uint8Array> {
  const isReader = stream.read();
  try {
    if (isPrimed) yield stream.prime();
    for await (const event of eventsIn(body)) {
      if (stream.kind === 'unasked' && mayAnswer(event)) continue;
      noteMessage(event, session, stream);
      const bytes = stream.push(event);
      // Somebody else reads on where this caller was lost.
      if (isReader()) yield bytes;
    }
  } finally {
    stream.end();
  }
}

/** Whether somebody could read an event's message as a response. */
function mayAnswer({ data }: SseEvent): boolean {
  if (data.length === 0) return false;
  const scan = scanMessage(data);
  return scan.outcome === 'refused' || scan.envelope.kind === 'response';
}

function noteMessage(
  { data }: SseEvent,
  { pending }: LegacySession,
  stream: ResumableStream,
): void {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (!text.includes('"method"')) {
    stream.isAnswered ||= text.length > 0;
    return;
  }
  const scan = scanMessage(data);
  if (scan.outcome === 'refused') return;
  if (scan.envelope.kind === 'response') stream.isAnswered = true;
  else if (scan.envelope.kind === 'request' && pending.size < maxPendingRequests) {
    pending.add(scan.envelope.id ?? '');
  }
}

/**
 * All of a body, up to `maxBytes`.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export async function wholeBody(body: Body, maxBytes = maxEventBytes): Promise<Buffer> {
  if (body instanceof Uint8Array) {
    if (body.length > maxBytes) throw unfinished(new SseEventTooLarge(maxBytes));
    return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw new SseEventTooLarge(maxBytes);
      chunks.push(chunk);
    }
  } catch (cause) {
    throw unfinished(cause);
  }
  return Buffer.concat(chunks);
}
