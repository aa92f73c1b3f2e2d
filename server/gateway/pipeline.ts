/*
 * The path of a call: `callPath` lists the steps of a request, in order. Nothing reaches an upstream before the steps down to
 * `send` have passed.
 *
 * On its way to the upstream a request passes
 *   adapters       which translate it if the upstream speaks the other era
 *   mirrored       which repeats arguments in headers for legacy callers of a modern upstream
 *   credentials    steps that add the upstream's own credentials, then its driver (`app/open-upstreams.ts`)
 * and its answer passes `pinned`, which compares the definitions in it with the accepted ones, and the filters of `answering.ts`. A
 * stream is numbered and kept for a caller who loses it.
 *
 * Once its body has arrived and a handshake has been made, a call with a key normally waits for nothing but the upstream.
 */
import { legacyOnlyMethods, modernHeaders } from 'latchkey-mcp/headers';
import type { Message } from 'latchkey-mcp/message';
import { type Awaitable, whenReady } from '#model/awaitable';
import { AdaptedUpstream } from './adapted-upstream.ts';
import { admitProved, presentedCredential, prove } from './admission.ts';
import { answerCaller, listeningFilters, replyOptions } from './answering.ts';
import { sent } from './answers.ts';
import { authorize, checkSubject, type Subject, unknownSubject } from './authorization.ts';
import type { Admitted, Arrived, Call, ForwardedCall, MessageCall, Proved } from './call.ts';
import { askForAccount, withoutConnectResponse } from './connect-account.ts';
import { presentingMethods } from './filters.ts';
import type { GatewayParts } from './gateway-parts.ts';
import { GatewayRefusal, needsPage } from './gateway-refusal.ts';
import { forwardLegacy, forwardStream } from './legacy-calls.ts';
import { callerWith, openCall, wholeCall } from './open-call.ts';
import { nodeOf, nodeOfResponse, passToNode } from './other-nodes.ts';
import { eraOf, parseAccept, readMessage } from './read-message.ts';
import { whenGone, type GatewayAnswer } from './request.ts';
import { readList } from './read-list.ts';
import { sealState, unsealMessage } from './seal.ts';
import { sessionOf } from './sessions.ts';
import { Steps } from './steps.ts';
import { post, type UpstreamAnswer } from './upstream.ts';

export const callPath = Steps.first('transport', checkTransport)
  .next('credential', proveCredential)
  .next('admission', admit)
  .next('elsewhere', leaveElsewhere)
  .next('node', findNode)
  .next('trace', trace)
  .next('use', noteUse)
  .next('capacity', openCall)
  .next('message', readBody)
  .next('span', beginSpan)
  .next('session of a node', passToItsNode)
  .next('stream', answerStream)
  .next('second admission', admitAgain)
  .next('era', findEra)
  .next('authorization', authorizeMessage)
  .next('unseal', unseal)
  .next('question of a node', passToAskingNode)
  .next('limits', beginLimits)
  .next('presentation', readPresentation)
  .next('adapters', adaptUpstream)
  .next('record', recordStart)
  .next('send', forward)
  .last('answer', answerCaller);

/** Requires an allowed origin, and a method that the transport knows. */
function checkTransport(call: Arrived, { ports }: GatewayParts): Arrived {
  const { method, headers } = call.request;
  if (!ports.isAllowedOrigin(headers.origin)) {
    throw new GatewayRefusal('foreign_origin', { detail: headers.origin?.slice(0, 200) ?? '' });
  }
  const inSession = headers['mcp-session-id'] !== undefined;
  const known = method === 'POST' || (inSession && (method === 'GET' || method === 'DELETE'));
  if (!known) throw new GatewayRefusal('method_not_allowed');
  return call;
}

/** Requires exactly one credential, in the headers, and checks its form or signature. */
function proveCredential(
  { request, metering }: Arrived,
  { ports }: GatewayParts,
): Awaitable<Proved> {
  const { proved } = request;
  if (proved) return { request, metering, proved };
  return whenReady(prove(presentedCredential(request.rawHeaders), ports), (found) => ({
    request,
    metering,
    proved: found,
  }));
}

/** Looks up what the caller may do at this endpoint now. */
function admit({ request, metering, proved }: Proved, parts: GatewayParts): Awaitable<Admitted> {
  const { headers } = request;
  return whenReady(admitProved(proved, request, parts.ports, parts.turn), (admission) => {
    parts.turn?.admitted(admission);
    return { request, metering, proved, admission, headers, node: undefined };
  });
}

/** Leaves a call to another process if only that process can answer it. The request is then forwarded whole. */
function leaveElsewhere(call: Admitted, { ports }: GatewayParts): Admitted | GatewayAnswer {
  return ports.isElsewhere?.(call.admission.endpoint.target) ? answeredElsewhere : call;
}

/** The status is for a sender that cannot forward the request. */
const answeredElsewhere: GatewayAnswer = {
  status: 503,
  headers: { 'Retry-After': '1' },
  isElsewhere: true,
};

/** Finds the other node, if any, that has the session of the call. */
function findNode(call: Admitted, { ports }: GatewayParts): Admitted {
  const node = nodeOf(call.request, ports);
  return node === undefined ? call : { ...call, node };
}

/** Follows the call with a span, if the operator wants traces. */
function trace(call: Admitted, { ports: { tracing } }: GatewayParts): Admitted {
  if (tracing) call.metering.traced(tracing);
  return call;
}

/** Notes that the credential was used. A call for another node is counted there. */
function noteUse(call: Admitted, { ports }: GatewayParts): Admitted {
  const { request, metering, admission, node } = call;
  if (node !== undefined) return call;
  const { credential, grantId } = admission;
  if (request.method === 'POST') metering.admitted(admission);
  const now = ports.clock.now();
  if (credential.type !== 'person') {
    ports.used({ type: credential.type, id: credential.id }, now);
  }
  if (grantId !== undefined) ports.used({ type: 'grant', id: grantId }, now);
  return call;
}

/** Reads and scans the body of a POST, once. */
function readBody(call: Call): Awaitable<Call | MessageCall> {
  const { request, arrived, ending } = call;
  if (request.method !== 'POST') return call;
  const message = readMessage(request, arrived, ending.signal);
  return message instanceof Promise
    ? message.then((late) => withMessage(call, late, true))
    : withMessage(call, message, false);
}

function withMessage(call: Call, { body, envelope }: Message, isLate: boolean): MessageCall {
  return { ...call, body, envelope, received: body, isLate, era: 'legacy' };
}

/** Begins the span of the call, now that its message has been read, which may name the span that it continues. */
function beginSpan(call: Call | MessageCall): Call | MessageCall {
  const headers = call.metering.beginSpan('body' in call ? call : undefined);
  return headers ? { ...call, headers } : call;
}

/** Passes a call in the session of another node to that node, at most once. That node admits the call again. */
function passToItsNode(
  call: Call | MessageCall,
  { ports }: GatewayParts,
): Awaitable<Call | MessageCall | GatewayAnswer> {
  if (call.node === undefined) return call;
  return passToNode(call.node, call, 'body' in call ? call.body : undefined, ports);
}

/** `GET` listens and `DELETE` ends a session; both only in sessions of the legacy era. */
function answerStream(
  call: Call | MessageCall,
  parts: GatewayParts,
): MessageCall | Promise<GatewayAnswer> {
  if ('body' in call) return call;
  const { limits } = call.admission.endpoint;
  if (limits && call.request.method === 'GET') {
    call.afterwards.push(parts.limits.listen(call.admission, limits).over);
  }
  return forwardStream(
    { ...call, upstream: new AdaptedUpstream(call, 'legacy', parts) },
    parts.legacy.sessions,
    {
      ...replyOptions(call, parts, undefined),
      filters: listeningFilters(call),
    },
  );
}

/** Admits the caller again if the body arrived late, because the caller's permissions may have changed in the meantime. */
function admitAgain(call: MessageCall, parts: GatewayParts): Awaitable<MessageCall> {
  return call.isLate ? readmitted(call, parts) : call;
}

/** The call with a new admission, which has the rights that its caller has now. @throws {GatewayRefusal} */
function readmitted(call: MessageCall, parts: GatewayParts): Awaitable<MessageCall> {
  return whenReady(admitProved(call.proved, call.request, parts.ports), (admission) => {
    const { owner, upstream } = callerWith(admission, parts);
    if (owner !== call.owner) {
      throw new GatewayRefusal('bad_credential', { cause: 'for another server' });
    }
    const { target } = admission.endpoint;
    const counted = call.held.counted(upstream, wholeCall(admission, call.metering));
    return { ...call, admission, target, upstream: counted };
  });
}

/** Finds out which era the caller speaks. Responses belong to the legacy era. */
function findEra(call: MessageCall): MessageCall {
  const { envelope, metering, request } = call;
  const isModern = envelope.kind !== 'response' && eraOf(envelope, request.headers) === 'modern';
  const found: MessageCall = isModern ? { ...call, era: 'modern' } : call;
  metering.read(found);
  return found;
}

/** Checks the method and the subjects of a message against the scopes and the rights of the caller. */
function authorizeMessage(call: MessageCall, parts: GatewayParts): Awaitable<MessageCall> {
  const { envelope, era, body, admission } = call;
  const { kind, method = '' } = envelope;
  if (kind === 'response') return call;
  // A collection speaks only the modern era, but passes on the legacy requests of its own callers to its members.
  const isOfMember = call.proved.type === 'member';
  if (era === 'modern' && !isOfMember && legacyOnlyMethods.has(method)) {
    throw new GatewayRefusal('unknown_method', { detail: method });
  }
  const undecided = authorize(envelope, body, admission);
  return undecided.length === 0 ? call : authorizeByLists(call, undecided, parts);
}

/**
 * Reads the lists that decide about the subjects of a call, because they were not read yet, and authorizes the call again. A
 * subject that cannot be decided even then is refused.
 *
 * @throws {GatewayRefusal}
 */
async function authorizeByLists(
  call: MessageCall,
  subjects: readonly Subject[],
  parts: GatewayParts,
): Promise<MessageCall> {
  let current = call;
  let undecided = subjects;
  for (const mayWait of [true, false]) {
    const kinds = [...new Set(undecided.map(({ kind }) => kind))];
    const read = new Map(
      await Promise.all(
        kinds.map(
          async (kind) => [kind, await readList(kind, current, parts, { mayWait })] as const,
        ),
      ),
    );
    current = await readmitted(current, parts);
    undecided = authorize(current.envelope, current.body, current.admission);
    const unknown = undecided.find(({ kind, name }) => read.get(kind)?.has(name) === false);
    if (unknown) throw unknownSubject(unknown);
    if (undecided.length === 0) return current;
  }
  for (const subject of undecided) checkSubject(subject, current.admission.rights);
  // The subject is on the list, but the list was not noted.
  throw new GatewayRefusal('unavailable');
}

/** Unseals the ids and states that the upstream gave to this caller. */
function unseal(call: MessageCall): MessageCall {
  const { body, envelope, continues } = unsealMessage(call, call.seal);
  if (continues !== undefined) call.metering.continues(continues);
  const { kind, method = '', taskId } = call.envelope;
  const isOfTask = kind === 'request' && method.startsWith('tasks/');
  if (isOfTask && taskId !== undefined) call.metering.isOfTask(taskId);
  return body === call.body ? call : { ...call, body, envelope };
}

/**
 * Passes a response to the node whose upstream asked the question. If that node is gone, the call that the response
 * belongs to is gone, too.
 */
function passToAskingNode(
  call: MessageCall,
  { ports }: GatewayParts,
): MessageCall | Promise<GatewayAnswer> {
  const { era, request, received, metering } = call;
  const node = era === 'modern' ? nodeOfResponse(call, request, ports) : undefined;
  if (node === undefined) return call;
  metering.passedOn();
  return passToNode(node, call, received, ports).catch((cause: unknown) => {
    const isGone = cause instanceof GatewayRefusal && cause.code === 'unknown_session';
    throw isGone ? new GatewayRefusal('not_theirs', { detail: 'requestState', cause }) : cause;
  });
}

/** Applies the limits of the endpoint. */
function beginLimits(call: MessageCall, parts: GatewayParts): MessageCall {
  const { limits } = call.admission.endpoint;
  if (limits) {
    call.afterwards.push(parts.limits.begin(call, call.envelope, call.received, limits).over);
  }
  return call;
}

/** Reads the operator's title and instructions for a client that connects. */
function readPresentation(call: MessageCall, { ports }: GatewayParts): Awaitable<MessageCall> {
  if (!presentingMethods.has(call.envelope.method ?? '')) return call;
  return ports.presentationOf(call.admission.endpoint).then(
    (presentation) =>
      presentation?.title || presentation?.instructions ? { ...call, presentation } : call,
    (cause: unknown) => {
      throw new GatewayRefusal('unavailable', { cause });
    },
  );
}

/** Puts the adapters for the caller's era in front of the upstream. */
function adaptUpstream(call: MessageCall, parts: GatewayParts): MessageCall {
  return { ...call, upstream: new AdaptedUpstream(call, call.era, parts) };
}

/** Where calls must be recorded before they are sent, waits until the row is on disk. */
function recordStart(call: MessageCall): Awaitable<MessageCall> {
  const recorded = call.metering.begin();
  if (!recorded) return call;
  return recorded.then(
    () => call,
    (cause: unknown) => {
      throw new GatewayRefusal('not_recorded', { cause });
    },
  );
}

/**
 * Forwards the message, in its session or with the handshake that the upstream needs. A caller without an account at
 * the upstream is asked to connect one.
 */
function forward(call: MessageCall, parts: GatewayParts): Awaitable<ForwardedCall | GatewayAnswer> {
  const { era } = call;
  const { legacy } = parts;
  call.metering.sentThrough(callerWith(call.admission, parts).upstream);
  const askOrThrow = (error: unknown): GatewayAnswer => {
    if (!(error instanceof GatewayRefusal) || !needsPage(error)) throw error;
    const inSession = era === 'legacy' && sessionOf(call, legacy.sessions)?.showsUrls;
    const state = { callId: call.metering.callId, value: undefined };
    const requestState = sealState(call.seal, state);
    const asked = askForAccount(error, call, { era, inSession, requestState });
    call.finish('ok', { end: 'refused', error: error.code, status: asked.status });
    return asked;
  };
  if (era === 'modern') return forwardModern(call, askOrThrow);
  try {
    const forwarded = forwardLegacy(call, legacy);
    if (!(forwarded instanceof Promise)) return { ...call, forwarded };
    return forwarded.then((answered) => ({ ...call, forwarded: answered }), askOrThrow);
  } catch (error) {
    return askOrThrow(error);
  }
}

/**
 * Forwards a message of the modern era as it is, in an exchange of its own. The caller cancels by closing the answer's stream.
 * If there is no answer, `recover` gets the error.
 *
 * MCP 2026-07-28 transports
 */
function forwardModern(
  call: MessageCall,
  recover: (error: unknown) => GatewayAnswer,
): Promise<ForwardedCall | GatewayAnswer> {
  const { request, upstream, ending } = call;
  const message = withoutConnectResponse(call);
  const { envelope } = message;
  if (envelope.method === 'subscriptions/listen') call.opened.endless();
  whenGone(request, () => ending.abort());
  const isAsSent = envelope === request.message?.envelope && call.headers === request.headers;
  const made = isAsSent ? request.messageHeaders : undefined;
  const headers = made ?? modernHeaders(envelope, call.headers);
  const answered = (answer: UpstreamAnswer): ForwardedCall => ({
    ...call,
    forwarded: {
      answer,
      accepts: parseAccept(request.headers.accept),
      ownId: { id: envelope.id, isRequest: envelope.kind === 'request' },
    },
  });
  return sent(upstream, post(message, headers, ending.signal), answered, recover);
}
