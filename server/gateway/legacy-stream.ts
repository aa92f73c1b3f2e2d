import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Call } from './call.ts';
import { followed } from './event-stream.ts';
import type { GatewayAnswer } from './exchange.ts';
import { legacyHeaders, traceHeaders } from './forwarded-headers.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { sessionOf, type LegacySession, type LegacySessions } from './legacy-sessions.ts';
import { LostCaller } from './lost-caller.ts';
import { ownEvents } from './own-answer.ts';
import { discard, eventAnswer, relay, send } from './relay.ts';
import type { ResumableStream } from './resumable-stream.ts';
import { takesPriming } from './takes-priming.ts';

/**
 * `GET` listens to what the upstream of a session says unasked, or goes on with a stream that was lost;
 * `DELETE` ends the session.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server", "Resumability and Redelivery",
 * "Session Management"
 *
 * @throws {GatewayRefusal} `unknown_session`, `unknown_event`, `method_not_allowed`
 */
export async function legacyStream(call: Call, sessions: LegacySessions): Promise<GatewayAnswer> {
  const { request, upstream, ending } = call;
  const session = sessionOf(call, sessions);
  if (!session) throw new GatewayRefusal('unknown_session');
  if (request.method === 'DELETE') {
    const headers = {
      ...legacyHeaders(request.headers, session.upstreamSessionId),
      ...traceHeaders(request.headers),
    };
    sessions.close(session.id);
    const answer = await send(upstream, { method: 'DELETE', headers, signal: ending.signal });
    await discard(answer.body);
    return { status: 204, headers: {} };
  }
  call.endless();
  const lastEventId = request.headers['last-event-id'];
  if (lastEventId !== undefined) {
    // Who comes back at once may arrive in the same turn as the end of the connection that was lost. Who only begins
    // to listen is not held up: calls right behind may have the upstream ask by this very stream.
    await nextTurn();
    await nextTurn();
  }
  const lost = lostStream(session, lastEventId);
  if (!lost) return listen(call, session);
  const { stream, number } = lost;
  const next = stream.isOver('unasked') ? session.streams.abandoned() : undefined;
  if (!next && (stream.isOver('unasked') || isCutOff(stream))) return listen(call, session, lost);
  request.gone.addEventListener('abort', () => ending.abort());
  return eventAnswer(goingOn(stream.behind(number, ending.signal), next, ending.signal));
}

/** An answer that the upstream ended early, and can be asked to go on with. */
function isCutOff(stream: ResumableStream): boolean {
  return stream.isOver('answer') && !stream.isAnswered && stream.upstreamEventId !== undefined;
}

/** What is left of one stream, and then of the one that took its place. */
async function* goingOn(
  left: AsyncIterable<Uint8Array>,
  next: ResumableStream | undefined,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  yield* left;
  if (next) yield* next.behind(next.has(0) ? 0 : next.lastNumber, signal);
}

interface LostStream {
  readonly stream: ResumableStream;
  /** Of the last event that the caller has. */
  readonly number: number;
}

/** What the caller had before: the stream of that event, or one to listen by that waits for it. */
function lostStream(
  { streams }: LegacySession,
  lastEventId: string | string[] | undefined,
): LostStream | undefined {
  const found = typeof lastEventId === 'string' ? streams.find(lastEventId) : undefined;
  if (found) return found;
  if (typeof lastEventId === 'string' && lastEventId.startsWith('a')) {
    throw new GatewayRefusal('unknown_event');
  }
  const abandoned = streams.abandoned();
  return abandoned && { stream: abandoned, number: abandoned.lastNumber };
}

/**
 * Listens to the upstream, anew or, where it ended a stream that should have gone on, behind its last event:
 * first comes what the caller missed of that one.
 */
async function listen(
  { request, upstream, ending }: Call,
  session: LegacySession,
  cutOff?: LostStream,
): Promise<GatewayAnswer> {
  const caller = new LostCaller(() => ending.abort());
  request.gone.addEventListener('abort', () => caller.left());
  const lastEventId = cutOff?.stream.upstreamEventId;
  const headers = {
    ...legacyHeaders(request.headers, session.upstreamSessionId),
    ...traceHeaders(request.headers),
    accept: 'text/event-stream',
    ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
  };
  const answer = await send(upstream, { method: 'GET', headers, signal: ending.signal });
  if (answer.status === 405 || answer.status === 404) {
    await discard(answer.body);
    // Whether the session is over is for a message to find out: some upstreams know no GET at all.
    throw new GatewayRefusal(answer.status === 405 ? 'method_not_allowed' : 'unknown_session');
  }
  const answered = cutOff?.stream.answered;
  const stream = session.streams.open(cutOff?.stream.kind ?? 'unasked', caller, answered);
  return relay(answer, { json: false, events: true }, async function* (body) {
    if (cutOff) yield* cutOff.stream.behind(cutOff.number, ending.signal);
    const own = stream.kind === 'answer' ? ownEvents(body, answered) : body;
    yield* followed(own, session, stream, takesPriming(request));
  });
}
