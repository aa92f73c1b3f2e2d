import { BriefMap } from 'latchkey-mcp/brief-map';
import type { Ending, EndSignal } from '#model/ending';
import { legacyHeaders, traceHeaders } from 'latchkey-mcp/headers';
import { type Envelope, maxIdBytes } from 'latchkey-mcp/message';
import { upstreamLocation } from '#model/upstream-kinds';
import { emptyAnswer } from './adapter-messages.ts';
import { discard, endUpstreamSession, send, endFailedHandshake } from './answers.ts';
import type { Awaitable } from '#model/awaitable';
import type { Admission } from './admission.ts';
import { saysItShowsUrls } from './connect-account.ts';
import { noResponses, ownResponse } from './filters.ts';
import { applicationIn } from './applications.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { ListChanges, ownStream, toldLists } from './list-changes.ts';
import { forwardPlain, type PlainLinks } from './plain-calls.ts';
import type { OtherNodes } from './other-nodes.ts';
import { parseAccept } from './read-message.ts';
import { reply, resumed, type ReplyOptions } from './reply.ts';
import { whenGone, type GatewayAnswer, type GatewayRequest } from './request.ts';
import { type Call, type Forwarded, type MessageCall } from './call.ts';
import { FollowedStream, LostCaller, type ResumableStream } from './session-streams.ts';
import { sessionOf, type LegacySession, type LegacySessions } from './sessions.ts';
import { isEventStream, post, type Upstream } from './upstream.ts';

/** The state of legacy callers that the gateway keeps between their requests. */
export interface LegacyState {
  readonly sessions: LegacySessions;
  readonly links: PlainLinks;
  readonly cancellations: Cancellations;
}

/**
 * Forwards a message of the legacy era: in its session if it names one, else with the handshake that the upstream
 * needs. In this era, a lost stream cancels nothing; `notifications/cancelled` does.
 *
 * MCP 2025-11-25 transports, "Session Management", "Cancellation"
 *
 * @throws {GatewayRefusal} `unknown_session`, `unexpected_response`
 */
export function forwardLegacy(
  call: MessageCall,
  { sessions, links, cancellations }: LegacyState,
): Awaitable<Forwarded> {
  const { request, envelope, ending, owner, target } = call;
  const session = sessionOf(call, sessions);
  if (session) call.metering.within(session);
  if (envelope.kind === 'response' && !session?.pending.delete(envelope.id ?? '')) {
    throw new GatewayRefusal('unexpected_response');
  }
  const caller = new LostCaller(() => ending.abort());
  whenGone(request, caller.connected());
  if (!session) {
    // Without a session the upstream cannot be notified, so the request itself is ended.
    if (envelope.method === 'notifications/cancelled') {
      cancellations.cancel(owner, envelope.requestId);
      return { answer: emptyAnswer(), accepts: parseAccept(undefined) };
    }
    call.afterwards.push(cancellations.expect(owner, envelope.id, ending));
    if (isPlain(envelope, request)) {
      return forwardPlain(
        {
          body: call.body,
          envelope,
          upstream: call.upstream,
          key: owner,
          place: upstreamLocation(target.upstream),
          signal: ending.signal,
          trace: traceHeaders(call.headers),
        },
        links,
      );
    }
  }
  return forwardInSession(call, session, { sessions, caller });
}

async function forwardInSession(
  call: MessageCall,
  session: LegacySession | undefined,
  { sessions, caller }: { readonly sessions: LegacySessions; readonly caller: LostCaller },
): Promise<Forwarded> {
  const { request, envelope, upstream, body, ending, admission, target } = call;
  const headers = {
    ...legacyHeaders(request.headers, session?.upstreamSessionId),
    ...traceHeaders(call.headers),
  };
  const answer = await send(upstream, post({ body, envelope }, headers, ending.signal));
  if (session && answer.status === 404) {
    await discard(answer.body);
    session.streams.endUnasked();
    sessions.close(session.id);
    throw new GatewayRefusal('unknown_session');
  }
  const streamOf = (within: LegacySession) => () =>
    new FollowedStream(
      within.streams.open('answer', caller, envelope.id),
      within,
      takesPriming(request),
    );
  const forwarded = {
    answer,
    accepts: parseAccept(request.headers.accept),
    ownId: { id: envelope.id, isRequest: envelope.kind === 'request' },
  };
  const { sessionId } = answer;
  const opens = envelope.method === 'initialize' && answer.status === 200;
  if (!opens || sessionId === undefined) {
    if (envelope.method === 'initialize') void endFailedHandshake(upstream, answer);
    return session ? { ...forwarded, stream: streamOf(session) } : forwarded;
  }
  // A caller that does not get the answer cannot use or end the session.
  if (request.gone.aborted) {
    void endFailedHandshake(upstream, answer);
    throw new GatewayRefusal('cancelled');
  }
  const opened = sessions.open(admission.principal, admission.endpoint.id, sessionId, {
    organization: admission.endpoint.organization,
    place: upstreamLocation(target.upstream),
    end: sessionEnd(upstream, legacyHeaders(request.headers, sessionId)),
  });
  opened.showsUrls = saysItShowsUrls(body);
  opened.application = applicationIn(body, envelope);
  opened.told = toldLists(admission.rights);
  return {
    ...forwarded,
    announced: (lists) => (opened.lists = lists),
    stream: streamOf(opened),
    headers: { 'Mcp-Session-Id': opened.id },
    abandon: () => sessions.end(opened.id),
  };
}

/**
 * Created here, because a function created in `forwardInSession` would keep the whole call in memory for as long as the
 * session.
 */
function sessionEnd(
  upstream: Upstream,
  headers: Readonly<Record<string, string>>,
): () => Promise<void> {
  return () => endUpstreamSession(upstream, headers);
}

/** Whether a request comes without any handshake, so that the gateway has to make the one that the upstream needs. */
function isPlain(envelope: Envelope, { headers }: GatewayRequest): boolean {
  return (
    envelope.method !== 'initialize' &&
    envelope.meta === undefined &&
    headers['mcp-protocol-version'] === undefined
  );
}

/**
 * Whether a legacy caller understands events without a message. Older clients take an empty event for broken JSON.
 *
 * MCP 2025-11-25 transports, "Sending Messages to the Server"
 */
function takesPriming({ headers }: GatewayRequest): boolean {
  const version = headers['mcp-protocol-version'];
  return typeof version === 'string' && version >= '2025-11-25';
}

/**
 * `GET` listens to the unsolicited messages of a session's upstream, or resumes a lost stream; `DELETE` ends the session.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server", "Resumability and Redelivery",
 * "Session Management"
 *
 * @throws {GatewayRefusal} `unknown_session`, `unknown_event`, `method_not_allowed`
 */
export async function forwardStream(
  call: Call,
  sessions: LegacySessions,
  options: Omit<ReplyOptions, 'accepts'>,
): Promise<GatewayAnswer> {
  const { request, upstream, ending } = call;
  const session = sessionOf(call, sessions);
  if (!session) throw new GatewayRefusal('unknown_session');
  if (request.method === 'DELETE') {
    const headers = {
      ...legacyHeaders(request.headers, session.upstreamSessionId),
      ...traceHeaders(call.headers),
    };
    sessions.close(session.id);
    const answer = await send(upstream, { method: 'DELETE', headers, signal: ending.signal });
    await discard(answer.body);
    options.finish('ok');
    return { status: 204, headers: {} };
  }
  call.opened.endless();
  const lost = withinScopes(lostStreams(session, request.headers['last-event-id']), call);
  const last = lost.at(-1)?.stream;
  if (!last || last.isOver('unasked') || isCutOff(last)) {
    return listen(call, session, { options, lost });
  }
  whenGone(request, () => ending.abort());
  return resumed(missedOf(lost, ending.signal), options.finish);
}

/** Whether a stream is an answer that the upstream ended early, and can be asked to continue. */
function isCutOff(stream: ResumableStream): boolean {
  return stream.isOver('answer') && !stream.isAnswered && stream.upstreamEventId !== undefined;
}

interface LostStream {
  readonly stream: ResumableStream;
  /** The number of the last event that the caller has received. */
  readonly number: number;
}

/**
 * The streams that the caller had before: the stream of the event that it names, those that continued it, and a
 * listening stream that waits for its caller. A caller that names an event takes over its stream even if the loss of
 * the old connection has not been noticed yet, because that connection may have ended at another node.
 *
 * @throws {GatewayRefusal} `unknown_event`
 */
function lostStreams(
  { streams }: LegacySession,
  lastEventId: string | string[] | undefined,
): LostStream[] {
  const found = typeof lastEventId === 'string' ? streams.find(lastEventId) : undefined;
  if (!found) {
    if (typeof lastEventId === 'string' && lastEventId.startsWith('a')) {
      throw new GatewayRefusal('unknown_event');
    }
    const abandoned = streams.abandoned();
    return abandoned ? [{ stream: abandoned, number: abandoned.lastNumber }] : [];
  }
  const lost = [found];
  let last = found.stream;
  while (last.successor) {
    last = last.successor;
    lost.push(wholeStream(last));
  }
  const abandoned = last.isOver('unasked') ? streams.abandoned() : undefined;
  return abandoned ? [...lost, wholeStream(abandoned)] : lost;
}

/**
 * Returns `lost`, or no streams if a listening stream in it carries messages that the caller may no longer get. The loss of a scope
 * ends such a stream, but a caller who reconnects through another node may arrive before that. Lost scopes do not end answers.
 */
function withinScopes(lost: LostStream[], { admission }: Call): LostStream[] {
  const exceeds = ({ kind, scopes }: ResumableStream) =>
    kind === 'unasked' && !scopes.every((scope) => admission.scopes.includes(scope));
  if (!lost.some(({ stream }) => exceeds(stream))) return lost;
  for (const { stream } of lost) if (stream.isOpen) stream.caller.giveUp();
  return [];
}

/** A stream from its beginning if all of its events are still kept, else only the events that follow. */
function wholeStream(stream: ResumableStream): LostStream {
  return { stream, number: stream.has(0) ? 0 : stream.lastNumber };
}

/** The events that the caller missed, stream by stream, and those that follow while the last stream is open. */
async function* missedOf(
  lost: readonly LostStream[],
  signal: EndSignal,
): AsyncGenerator<Uint8Array> {
  for (const { stream, number } of lost) yield* stream.behind(number, signal);
}

/**
 * Listens to the upstream, continuing after the last event that it sent in the `lost` streams, if any. The caller first
 * gets the events of those streams that it missed.
 */
async function listen(
  { request, headers: callers, admission, upstream, ending, opened }: Call,
  session: LegacySession,
  {
    options,
    lost,
  }: { readonly options: Omit<ReplyOptions, 'accepts'>; readonly lost: readonly LostStream[] },
): Promise<GatewayAnswer> {
  const caller = new LostCaller(() => ending.abort());
  whenGone(request, caller.connected());
  const cutOff = lost.at(-1)?.stream;
  const heard = lost.findLast(({ stream }) => stream.upstreamEventId !== undefined);
  const lastEventId = heard?.stream.upstreamEventId;
  const headers = {
    ...legacyHeaders(request.headers, session.upstreamSessionId),
    ...traceHeaders(callers),
    accept: 'text/event-stream',
    ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
  };
  const answer = await send(upstream, { method: 'GET', headers, signal: ending.signal });
  // A stream that continues an answer ends with the answer, so it announces no changes.
  const isListening = (cutOff?.kind ?? 'unasked') === 'unasked';
  const changes = isListening ? changesOf(session, admission) : undefined;
  const isOther = answer.status === 200 && !isEventStream(answer);
  const isMissing = answer.status === 405 || (isListening && isOther);
  const isOwn = isMissing && changes !== undefined && admission.rights.dependsOnCaller;
  if (isMissing || answer.status === 404) await discard(answer.body);
  if (isOwn) changes.hold();
  else if (isMissing || answer.status === 404) {
    // The session is not ended, because some upstreams do not support GET at all. If the session is over, the next message ends it.
    throw new GatewayRefusal(isMissing ? 'method_not_allowed' : 'unknown_session');
  }
  changes?.start();
  opened.changes = changes;
  const answered = cutOff?.answered;
  const responses = isListening ? noResponses : ownResponse(answered);
  return reply(isOwn ? ownStream(answer) : answer, {
    ...options,
    changes,
    accepts: { json: false, events: true },
    filters: [responses, ...options.filters],
    missed: missedOf(lost, ending.signal),
    stream: () => {
      const stream = session.streams.open(cutOff?.kind ?? 'unasked', caller, answered);
      stream.scopes = admission.scopes;
      if (cutOff) cutOff.successor = stream;
      return new FollowedStream(stream, session, takesPriming(request));
    },
  });
}

/** Announces changes of the lists that the handshake of a session announced as changing; `undefined` if there are none. */
function changesOf(session: LegacySession, { rights }: Admission): ListChanges | undefined {
  const { lists = [] } = session;
  if (lists.length === 0) return undefined;
  session.told ??= toldLists(rights);
  return new ListChanges(rights, { lists, told: session.told });
}

/**
 * Requests without a session that a later `notifications/cancelled` may end: an upstream without a session cannot be
 * sent that notification, so the request to it is ended instead. If the request is not at this node, the other nodes
 * are told.
 */
export class Cancellations {
  readonly #requests = new BriefMap<string, Pick<Ending, 'abort'>>();
  readonly #tell: OtherNodes['tell'];

  constructor(tell?: OtherNodes['tell']) {
    this.#tell = tell;
  }

  /** Notes a request. Call the returned function when the request is over. */
  expect(owner: string, id: string | undefined, ending: Pick<Ending, 'abort'>): () => void {
    if (id === undefined) return () => undefined;
    const key = `${owner} ${id}`;
    this.#requests.set(key, ending);
    return () => {
      if (this.#requests.get(key) === ending) this.#requests.delete(key);
    };
  }

  /** Ends the owner's request with this id (JSON text), at whichever node it is in progress. */
  cancel(owner: string, id: string | undefined): void {
    // No request has a longer id.
    if (id === undefined || id.length > maxIdBytes || this.cancelHere(owner, id)) return;
    this.#tell?.({ type: 'cancelled', owner, request: id });
  }

  /** Ends the owner's request with this id if it is in progress at this node, and returns whether it was. */
  cancelHere(owner: string, id: string): boolean {
    const request = this.#requests.get(`${owner} ${id}`);
    request?.abort();
    return request !== undefined;
  }
}
