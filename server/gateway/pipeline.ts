/*
 * The path of a call, in order. Nothing reaches an upstream before the steps down to `send` have passed.
 *
 *   request   transport      an allowed origin, a known HTTP method
 *             credential     exactly one, in the headers
 *             admission      what it may do at this server, now
 *             elsewhere      a call that needs what only another process has is forwarded whole
 *             trace          a span of its own, if the operator wants traces
 *             capacity       not too much open by this caller, and not too much memory for what it sends
 *             node           a call in the session of another node goes there once, and is admitted there again
 *             message        the body, read and scanned once; the caller is admitted again if it took its time
 *             authorization  the era that it speaks; its method and tool, by the caller's scopes
 *             unseal         ids and states that the upstream gave this caller
 *             answering node a response to a question of another node's upstream goes there
 *             limits         of this server
 *             presentation   the operator's title and instructions are read, for a client that connects
 *             send           in its session, or with the handshake that the upstream needs
 *   upstream  adapters       translate where the upstream speaks the other era
 *             mirrored       repeat arguments in headers for legacy callers of a modern upstream
 *             credentials    of the upstream's own, then its driver
 *             pinned tools   compare each list of tools with what was accepted
 *   answer    notifications  that the caller's scopes cover
 *             presentation   the operator's title and instructions
 *             hidden tools   left out of lists
 *             own response   to the request that was sent, and no other
 *             seal           ids and states, for this caller
 *             stream         numbered and kept for a caller who loses it
 *             limits, metering, heartbeat
 *
 * A step returns a value or a promise. As long as there are values a call goes on in the same turn: with a key, its body
 * arrived and its handshake made, it waits for nothing but the upstream.
 */
import { type Era, legacyOnlyMethods, modernHeaders } from 'latchkey-mcp/headers';
import type { Message } from 'latchkey-mcp/message';
import type { ServerLimits } from '#model/server-limits';
import { admitProved, ownerOf, presentedCredential, prove, type Admission } from './admission.ts';
import {
  type ProvedCredential,
  whenGone,
  type GatewayAnswer,
  type GatewayRequest,
} from './request.ts';
import { sent } from './answers.ts';
import { authorize } from './authorization.ts';
import { type Awaitable, whenReady } from '#model/awaitable';
import { askForAccount, withoutConnectResponse } from './connect-account.ts';
import {
  allowedNotifications,
  ownResponse,
  presented,
  presentingMethods,
  type Filter,
  type Presentation,
} from './filters.ts';
import type { GatewayParts, Progress } from './gateway-parts.ts';
import { answerBrokeOff, GatewayRefusal } from './gateway-refusal.ts';
import { HeldAnswers } from './held-answers.ts';
import { forwardLegacy, forwardStream } from './legacy-calls.ts';
import { isCall, type AnsweredOutcome } from './metering.ts';
import { countedFor } from './open-answers.ts';
import { nodeOf, nodeOfResponse, passToNode } from './other-nodes.ts';
import { eraOf, parseAccept, readMessage } from './read-message.ts';
import { reply, slownessIn, type ReplyOptions } from './reply.ts';
import { type Call, type Forwarded, type MessageCall } from './call.ts';
import { principalSeal, sealed, unsealMessage } from './seal.ts';
import { sessionOf } from './sessions.ts';
import { asksForTools, hideTools } from './tool-list.ts';
import { UpstreamError, type Upstream, type UpstreamRequest } from './upstream.ts';

const maxOpenPerCredential = 1024;

/** The status is for a sender that cannot forward the request. */
const answeredElsewhere: GatewayAnswer = {
  status: 503,
  headers: { 'Retry-After': '1' },
  isElsewhere: true,
};

/** @throws {GatewayRefusal}, also as a rejection; then `givenUp` has to be called */
export function passCall(
  request: GatewayRequest,
  progress: Progress,
  parts: GatewayParts,
): Awaitable<GatewayAnswer> {
  checkTransport(request, parts);
  return whenReady(admissionOf(request, parts), (admitted) => {
    if (parts.ports.isElsewhere?.(admitted.endpoint.target)) return answeredElsewhere;
    const node = nodeOf(request, parts.ports);
    progress.principal = admitted.principal;
    const { tracing } = parts.ports;
    const headers = tracing ? progress.metering.trace(tracing, request) : request.headers;
    if (node === undefined) noteAdmitted(request, admitted, progress, parts);
    const call = begun({ request, headers, admission: admitted }, progress, parts);
    progress.call = call;
    if (node !== undefined) {
      return passInSession(node, call, progress, parts);
    }
    if (request.method !== 'POST') return passStream(call, progress, parts);
    const message = readMessage(request, call.arrived, call.ending.signal);
    if (!(message instanceof Promise)) return passMessage(message, call, progress, parts);
    return message.then((read) => passLateMessage(read, call, progress, parts));
  });
}

/** Passes a call to the node that has its session. */
async function passInSession(
  node: string,
  call: Call,
  progress: Progress,
  parts: GatewayParts,
): Promise<GatewayAnswer> {
  const { request } = call;
  const message =
    request.method === 'POST'
      ? await readMessage(request, call.arrived, call.ending.signal)
      : undefined;
  if (message) progress.id = message.envelope.id ?? 'null';
  const proved = await proofOf(request, parts);
  return passToNode(node, call, { proved, body: message?.body }, parts.ports);
}

/** Passes a response to the node that waits for it. If that node is gone, the call that it belongs to is, too. */
async function passResponse(
  node: string,
  call: Call,
  body: Buffer,
  parts: GatewayParts,
): Promise<GatewayAnswer> {
  try {
    const proved = await proofOf(call.request, parts);
    return await passToNode(node, call, { proved, body }, parts.ports);
  } catch (cause) {
    const isGone = cause instanceof GatewayRefusal && cause.code === 'unknown_session';
    throw isGone ? new GatewayRefusal('not_theirs', { detail: 'requestState', cause }) : cause;
  }
}

/** A message whose body took its time: what the caller may do is looked up again, because it may have changed meanwhile. */
async function passLateMessage(
  read: Message,
  call: Call,
  progress: Progress,
  parts: GatewayParts,
): Promise<GatewayAnswer> {
  const { request, owner } = call;
  const admission = await admissionOf(request, parts);
  // Another server has taken over the name.
  if (ownerOf(admission.principal, admission.endpoint.id) !== owner) {
    throw new GatewayRefusal('bad_credential', { cause: 'for another server' });
  }
  const upstream = call.held.counted(
    parts.ports.upstreamOf(admission.endpoint.target, owner, admission),
  );
  return passMessage(
    read,
    { ...call, admission, target: admission.endpoint.target, upstream },
    progress,
    parts,
  );
}

/** Ends a call that failed. Returns the error that its caller gets. */
export function givenUp({ ending, finish }: Call, error: unknown): unknown {
  finish();
  const wasEnded = ending.signal.aborted;
  // Nothing reads what the upstream still sends.
  ending.abort();
  if (!wasEnded || !isBreak(error)) return error;
  return slownessIn(ending.signal) ?? new GatewayRefusal('cancelled', { cause: error });
}

function passMessage(
  read: Message,
  call: Call,
  progress: Progress,
  parts: GatewayParts,
): Awaitable<GatewayAnswer> {
  const { envelope } = read;
  progress.id = envelope.id ?? 'null';
  progress.metering.read(envelope);
  if (envelope.kind !== 'response') {
    progress.era = eraOf(envelope, call.request.headers);
    const { method = '' } = envelope;
    if (progress.era === 'modern' && legacyOnlyMethods.has(method)) {
      throw new GatewayRefusal('unknown_method', { detail: method });
    }
    authorize(envelope, read.body, call.admission);
  }
  const unsealed = unsealMessage(read, call.seal);
  const node =
    progress.era === 'modern' ? nodeOfResponse(unsealed, call.request, parts.ports) : undefined;
  if (node !== undefined) {
    progress.metering.passedOn();
    return passResponse(node, call, read.body, parts);
  }
  const { limits } = call.admission.endpoint;
  if (limits) call.afterwards.push(parts.limits.begin(call, envelope, read.body, limits).over);
  const message: MessageCall = {
    ...call,
    ...unsealed,
    upstream: adapted(call, progress.era, parts),
  };
  return whenReady(presentationFor(message, parts), (presentation) =>
    forward(message, progress.era, parts, (forwarded) =>
      passAnswer(forwarded, message, presentation, { progress, parts }),
    ),
  );
}

function passAnswer(
  forwarded: Forwarded,
  call: MessageCall,
  presentation: Presentation | undefined,
  { progress, parts }: { readonly progress: Progress; readonly parts: GatewayParts },
): Awaitable<GatewayAnswer> {
  const { answer, headers, abandon } = forwarded;
  const { envelope } = call;
  const { limits } = call.admission.endpoint;
  const { hiddenTools } = call.target;
  const filters = answerFilters(call, forwarded, presentation);
  const options = replyOptions(call, { progress, parts, limits: isCall(envelope) && limits });
  const hides = envelope.method === 'tools/list' && hiddenTools.length > 0;
  const replyOrThrow = () =>
    reply(answer, {
      ...options,
      accepts: forwarded.accepts,
      // Those of a stream run when its head was sent.
      filters: abandon
        ? filters.map((filter) => (message) => orElse(() => filter(message), abandon))
        : filters,
      ownId: forwarded.ownId,
      isSingle: hides,
      isHeldWhole: hides || presentation !== undefined || forwarded.restore !== undefined,
      isAlways200: forwarded.isAlways200,
      stream: forwarded.stream,
    });
  const replied = abandon ? orElse(replyOrThrow, abandon) : replyOrThrow();
  if (!headers) return replied;
  return whenReady(replied, (made) => ({ ...made, headers: { ...made.headers, ...headers } }));
}

/** The result of `act`. Calls `failed` if it throws or rejects. */
function orElse<Result>(act: () => Result, failed: () => void): Result {
  try {
    const result = act();
    if (result instanceof Promise) result.catch(failed);
    return result;
  } catch (error) {
    failed();
    throw error;
  }
}

/** The filters that every message of an answer passes, in this order. Most calls need two or three of them. */
function answerFilters(
  { admission, target, envelope, seal }: MessageCall,
  { answer, ownId, restore }: Forwarded,
  presentation: Presentation | undefined,
): Filter[] {
  const filters: (Filter | undefined)[] = [
    allowedNotifications(admission.scopes),
    presentation && answer.status === 200 ? presented(presentation) : undefined,
    envelope.method === 'tools/list' ? hideTools(target.hiddenTools) : undefined,
    ownId && ownResponse(ownId.id),
    restore,
    sealed(seal),
  ];
  return filters.filter((filter) => filter !== undefined);
}

/** `GET` listens and `DELETE` ends a session; both only in sessions of the legacy era. */
function passStream(call: Call, progress: Progress, parts: GatewayParts): Promise<GatewayAnswer> {
  const { limits } = call.admission.endpoint;
  if (limits && call.request.method === 'GET') {
    call.afterwards.push(parts.limits.listen(call.admission, limits).over);
  }
  const listening = { ...call, upstream: adapted(call, 'legacy', parts) };
  return forwardStream(listening, parts.legacy.sessions, {
    ...replyOptions(call, { progress, parts, limits: false }),
    filters: [allowedNotifications(call.admission.scopes), sealed(call.seal)].filter(
      (filter) => filter !== undefined,
    ),
  });
}

function checkTransport({ method, headers }: GatewayRequest, { ports }: GatewayParts): void {
  if (!ports.isAllowedOrigin(headers.origin)) {
    throw new GatewayRefusal('foreign_origin', { detail: headers.origin?.slice(0, 200) ?? '' });
  }
  const inSession = headers['mcp-session-id'] !== undefined;
  const known = method === 'POST' || (inSession && (method === 'GET' || method === 'DELETE'));
  if (!known) throw new GatewayRefusal('method_not_allowed');
}

function admissionOf(request: GatewayRequest, parts: GatewayParts): Awaitable<Admission> {
  const proof = proofOf(request, parts);
  // Something may be written while it is waited for, so it is read again then.
  const asOf = proof instanceof Promise ? undefined : parts.changeToken;
  return whenReady(proof, (proved) => admitProved(proved, request, parts.ports, asOf));
}

function proofOf(
  { proved, rawHeaders }: GatewayRequest,
  { ports }: GatewayParts,
): Awaitable<ProvedCredential> {
  return proved ?? prove(presentedCredential(rawHeaders), ports);
}

function noteAdmitted(
  request: GatewayRequest,
  admission: Admission,
  progress: Progress,
  { ports }: GatewayParts,
): void {
  const { credential, grantId } = admission;
  if (request.method === 'POST') progress.metering.admitted(admission);
  const now = ports.clock.now();
  if (credential.type !== 'person') {
    ports.used({ type: credential.type, id: credential.id }, now);
  }
  if (grantId !== undefined) ports.used({ type: 'grant', id: grantId }, now);
}

/** Adds the call to those that are open, which end when the caller loses access. */
function begun(
  { request, headers, admission }: Pick<Call, 'request' | 'headers' | 'admission'>,
  { metering }: Progress,
  { ports, open, reaper, memory, answerMemory }: GatewayParts,
): Call {
  if (open.count(countedFor(admission)) >= maxOpenPerCredential) {
    throw new GatewayRefusal('too_many_requests', {
      detail: `this credential already has ${maxOpenPerCredential} open requests`,
      retryAfterSeconds: 1,
    });
  }
  const ending = new AbortController();
  const owner = ownerOf(admission.principal, admission.endpoint.id);
  reaper.note(owner, admission.access);
  const { target } = admission.endpoint;
  const upstream = ports.upstreamOf(target, owner, admission);
  const { over, endless } = open.add(whileConnected(admission, upstream), ending);
  const holder = { organization: admission.endpoint.organization, caller: countedFor(admission) };
  const held = new HeldAnswers(answerMemory, holder, (refusal) => ending.abort(refusal));
  const { take: arrived, release } = memory.body(holder, held.giveUp);
  const afterwards = [over, release];
  const finish = (outcome?: AnsweredOutcome) => {
    for (const act of afterwards.splice(0)) act();
    held.over();
    if (outcome) metering.answered(outcome);
  };
  const seal = principalSeal(owner, ports.mac);
  const handles = { arrived, held, endless, afterwards, finish };
  return {
    request,
    headers,
    admission,
    target,
    upstream: held.counted(upstream),
    ending,
    owner,
    seal,
    ...handles,
  };
}

/** An admission that also ends when the account at the upstream is disconnected. */
function whileConnected(admission: Admission, { isConnected }: Upstream): Admission {
  if (!isConnected) return admission;
  const scopesNow = async () => {
    const scopes = await admission.scopesNow();
    return scopes && (await isConnected()) ? scopes : undefined;
  };
  return { ...admission, scopesNow };
}

function presentationFor(
  { admission, envelope }: MessageCall,
  { ports }: GatewayParts,
): Awaitable<Presentation | undefined> {
  if (!presentingMethods.has(envelope.method ?? '')) return undefined;
  return ports.presentationOf(admission.endpoint).then(
    (said) => (said?.title || said?.instructions ? said : undefined),
    (cause: unknown) => {
      throw new GatewayRefusal('unavailable', { cause });
    },
  );
}

/** The upstream of a call for a caller of `era`: requests pass the adapters, and what those send passes the steps below. */
function adapted(
  { upstream, owner, admission, target }: Call,
  era: Era,
  parts: GatewayParts,
): Upstream {
  const { ports, mirrored } = parts;
  const pinned = (request: UpstreamRequest) => {
    const answer = upstream.send(request);
    return asksForTools(request) ? answer.then((list) => ports.pinned(list, target)) : answer;
  };
  // Modern callers repeat the arguments themselves.
  const direct: Upstream = {
    send: era === 'modern' ? pinned : (request) => mirrored.send(request, target, pinned),
    hold: upstream.hold,
    giveUp: upstream.giveUp,
  };
  const call = { upstream: direct, owner, admission, target };
  return { send: (request) => ports.eras.send(era, request, call) };
}

function forward(
  message: MessageCall,
  era: Era,
  { legacy }: GatewayParts,
  step: (forwarded: Forwarded) => Awaitable<GatewayAnswer>,
): Awaitable<GatewayAnswer> {
  const askOrThrow = (error: unknown): GatewayAnswer => {
    if (!(error instanceof GatewayRefusal) || error.code !== 'not_connected') throw error;
    const inSession = era === 'legacy' && sessionOf(message, legacy.sessions)?.showsUrls;
    const asked = askForAccount(error, message, { era, inSession });
    message.finish('ok');
    return asked;
  };
  let forwarded: Awaitable<Forwarded>;
  try {
    forwarded =
      era === 'modern'
        ? forwardModern({ ...message, ...withoutConnectResponse(message) })
        : forwardLegacy(message, legacy);
  } catch (error) {
    return askOrThrow(error);
  }
  return forwarded instanceof Promise ? forwarded.then(step, askOrThrow) : step(forwarded);
}

/**
 * Forwards a message of the modern era as it is, in an exchange of its own. The caller cancels by closing the answer's stream.
 *
 * MCP 2026-07-28 transports
 */
function forwardModern(call: MessageCall): Promise<Forwarded> {
  const { request, envelope, upstream, body, ending } = call;
  if (envelope.method === 'subscriptions/listen') call.endless();
  whenGone(request, () => ending.abort());
  const headers = modernHeaders(envelope, call.headers);
  return sent(
    upstream,
    { method: 'POST', headers, body, signal: ending.signal },
    (answer): Forwarded => ({
      answer,
      accepts: parseAccept(request.headers.accept),
      ownId: { id: envelope.id, isRequest: envelope.kind === 'request' },
    }),
  );
}

interface ReplyTo {
  readonly progress: Progress;
  readonly parts: GatewayParts;
  readonly limits: ServerLimits | undefined | false;
}

function replyOptions(
  { request, ending, held, finish }: Call,
  { progress, parts, limits }: ReplyTo,
): Omit<ReplyOptions, 'accepts' | 'filters'> {
  const report = (cause: unknown) => {
    const isKnown = cause instanceof UpstreamError || cause instanceof GatewayRefusal;
    if (!isKnown) return undefined;
    const refusal = cause instanceof GatewayRefusal ? cause : answerBrokeOff(cause);
    const { body } = parts.refuse(refusal, request, progress);
    return typeof body === 'string' ? body : '';
  };
  return {
    maxBytes: (limits && limits.answerBytes) || Infinity,
    signal: ending.signal,
    held,
    finish,
    // A listening stream has no response.
    report: progress.id === 'null' ? undefined : report,
    cut: (refusal) => void parts.refuse(refusal, request, progress),
  };
}

/** Whether the error only says that the answer broke off, as it does when the call was ended. */
function isBreak(error: unknown): boolean {
  return !(error instanceof GatewayRefusal) || error.code === 'upstream_failed';
}
