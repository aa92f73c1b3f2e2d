import { type Awaitable, whenReady } from '#model/awaitable';
import type { ServerLimits } from '#model/server-limits';
import type { Call, ForwardedCall, MessageCall } from './call.ts';
import {
  allowedNotifications,
  ownResponse,
  presented,
  presentingMethods,
  type Filter,
} from './filters.ts';
import type { GatewayParts } from './gateway-parts.ts';
import { answerBrokeOff, GatewayRefusal } from './gateway-refusal.ts';
import {
  acknowledgedChanges,
  announcedChanges,
  ListChanges,
  listenAnswer,
  toldLists,
  wantedLists,
} from './list-changes.ts';
import { isCall } from './call-methods.ts';
import { LongAnswerSeal } from './long-answer-seal.ts';
import { callerOf, idOf } from './open-call.ts';
import { reply, type ReplyOptions } from './reply.ts';
import type { GatewayAnswer } from './request.ts';
import {
  openUpdates,
  privateResult,
  restrictedUri,
  sameRefusal,
  unlessError,
} from './restricted-answers.ts';
import { sealed } from './seal.ts';
import { filteredList, isListMethod } from './tool-list.ts';
import { type UpstreamAnswer, UpstreamError } from './upstream.ts';

/** Makes the caller's answer from the upstream's. @throws {GatewayRefusal} */
export function answerCaller(call: ForwardedCall, parts: GatewayParts): Awaitable<GatewayAnswer> {
  const uri = restrictedUri(call);
  const changes = changesOf(call);
  if (uri === undefined && !changes) return answerWith(call, parts, {});
  const { answer } = call.forwarded;
  const read = uri === undefined ? subscribed(call, answer) : unlessError(answer, uri);
  return read.then((theirs) => {
    const forwarded = { ...call.forwarded, answer: theirs };
    return answerWith({ ...call, forwarded }, parts, { uri, changes });
  });
}

/** How rules change the answers to a few methods. */
interface Ruled {
  /** The resource that the call is about. */
  readonly uri?: string | undefined;
  readonly changes?: ListChanges | undefined;
}

function answerWith(
  call: ForwardedCall,
  parts: GatewayParts,
  { uri, changes }: Ruled,
): Awaitable<GatewayAnswer> {
  const { envelope, forwarded, presentation, admission } = call;
  const { answer, headers, abandon, restore } = forwarded;
  const { method = '' } = envelope;
  const list = isListMethod(method) ? filteredList(method, admission.rights) : undefined;
  const presents = presentingMethods.has(method);
  const filters = answerFilters(call, { list, uri, changes });
  const limits = isCall(envelope) ? admission.endpoint.limits : undefined;
  const { maxBytes, signal, held, finish, report, cut } = replyOptions(call, parts, limits);
  // Listed one by one, because spreading them would make a larger and slower object.
  const options: ReplyOptions = {
    maxBytes,
    signal,
    held,
    finish,
    report,
    cut,
    accepts: forwarded.accepts,
    // In a stream, filters run after `reply` has returned, so each of them has to call `abandon` if it fails.
    filters: abandon
      ? filters.map((filter) => (message) => orElse(() => filter(message), abandon))
      : filters,
    ownId: forwarded.ownId,
    isSingle: list !== undefined,
    sealLong: () => new LongAnswerSeal(call.seal, call.metering),
    isHeldWhole:
      list !== undefined ||
      uri !== undefined ||
      presents ||
      presentation !== undefined ||
      restore !== undefined,
    isAlways200: forwarded.isAlways200,
    stream: forwarded.stream,
    changes,
  };
  const replied = abandon ? orElse(() => reply(answer, options), abandon) : reply(answer, options);
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
  call: ForwardedCall,
  { list, uri, changes }: Ruled & { readonly list: Filter | undefined },
): Filter[] {
  const { admission, seal, presentation, metering, envelope, opened, forwarded } = call;
  const { answer, ownId, restore, announced } = forwarded;
  const { scopes, rights } = admission;
  const isPresented = answer.status === 200;
  const { method = '' } = envelope;
  const presents = isPresented && presentingMethods.has(method);
  // A legacy caller listens only in a session.
  const isHeard = method === 'server/discover' || announced !== undefined;
  const isListening = method === 'subscriptions/listen';
  const filters: (Filter | undefined)[] = [
    allowedNotifications(scopes),
    rights.restricts('resource') || isListening ? openUpdates(() => opened.rights) : undefined,
    presentation && isPresented ? presented(presentation) : undefined,
    presents ? announcedChanges(rights, { isHeard, announced }) : undefined,
    presents && rights.dependsOnCaller ? privateResult : undefined,
    list,
    uri === undefined ? undefined : sameRefusal(uri),
    uri === undefined ? undefined : privateResult,
    changes && acknowledgedChanges(changes, subscriptionOf(call)),
    ownId && ownResponse(ownId.id),
    restore,
    // In MCP 2026-07-28, a list never asks for input. A value in a list that was not sealed is of no use to anyone.
    isListMethod(method) ? undefined : sealed(seal, metering),
    metering.resultFilter,
  ];
  return filters.filter((filter) => filter !== undefined);
}

/** The notifications that a modern caller subscribes to, and whether the gateway itself sends them. */
function subscriptionOf({ envelope, body, admission }: MessageCall) {
  const { params } = envelope;
  const text = params && body.toString('utf8', params.start, params.end);
  const wanted = wantedLists(Object(text === undefined ? {} : JSON.parse(text)));
  return { wanted, isOwn: admission.rights.dependsOnCaller };
}

/** Announces changes of the lists that a modern caller subscribed to; `undefined` for any other call. */
function changesOf(call: ForwardedCall): ListChanges | undefined {
  const { envelope, admission, opened } = call;
  if (envelope.method !== 'subscriptions/listen' || subscriptionOf(call).wanted.length === 0)
    return undefined;
  const { rights } = admission;
  const told = toldLists(rights);
  opened.changes = new ListChanges(rights, { lists: [], told, subscription: envelope.id });
  return opened.changes;
}

async function subscribed(call: ForwardedCall, answer: UpstreamAnswer): Promise<UpstreamAnswer> {
  return subscriptionOf(call).isOwn ? listenAnswer(answer, call.envelope.id ?? 'null') : answer;
}

/** The filters of a listening stream. */
export function listeningFilters({ admission, seal, metering, opened }: Call): Filter[] {
  return [
    allowedNotifications(admission.scopes),
    openUpdates(() => opened.rights),
    sealed(seal, metering),
  ].filter((filter) => filter !== undefined);
}

/** The options of an answer that do not depend on the message: its limits, and how it counts, ends and fails. */
export function replyOptions(
  call: Call,
  { refuse }: GatewayParts,
  limits: ServerLimits | undefined,
) {
  const { ending, held, finish } = call;
  const report = (cause: unknown) => {
    const isKnown = cause instanceof UpstreamError || cause instanceof GatewayRefusal;
    if (!isKnown) return undefined;
    const refusal = cause instanceof GatewayRefusal ? cause : answerBrokeOff(cause);
    const { body } = refuse(refusal, callerOf(call));
    return typeof body === 'string' ? body : '';
  };
  return {
    maxBytes: limits?.answerBytes || Infinity,
    signal: ending.signal,
    held,
    finish,
    // A listening stream answers no request, so it cannot end with an error response.
    report: idOf(call) === 'null' ? undefined : report,
    cut: (refusal: GatewayRefusal) => void refuse(refusal, callerOf(call)),
  } satisfies Partial<ReplyOptions>;
}
