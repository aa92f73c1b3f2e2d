import { type Awaitable, whenReady } from '#model/awaitable';
import type { ServerLimits } from '#model/server-limits';
import type { Call, Forwarded, ForwardedCall, MessageCall } from './call.ts';
import { allowedNotifications, ownResponse, presented, type Filter } from './filters.ts';
import type { GatewayParts } from './gateway-parts.ts';
import { answerBrokeOff, GatewayRefusal } from './gateway-refusal.ts';
import { isCall } from './metering.ts';
import { LongAnswerSeal } from './long-answer-seal.ts';
import { callerOf } from './open-call.ts';
import { reply, type ReplyOptions } from './reply.ts';
import type { GatewayAnswer } from './request.ts';
import { sealed } from './seal.ts';
import { filteredList, isListMethod } from './tool-list.ts';
import { UpstreamError } from './upstream.ts';

/** Makes the caller's answer from the upstream's. @throws {GatewayRefusal} */
export function answerCaller(call: ForwardedCall, parts: GatewayParts): Awaitable<GatewayAnswer> {
  const { envelope, forwarded, presentation } = call;
  const { answer, headers, abandon, restore } = forwarded;
  const { method } = envelope;
  const list = isListMethod(method) ? filteredList(method, call.admission.rights) : undefined;
  const filters = answerFilters(call, forwarded, list);
  const options: ReplyOptions = {
    ...replyOptions(call, parts, isCall(envelope) ? call.admission.endpoint.limits : undefined),
    accepts: forwarded.accepts,
    // In a stream, filters run after `reply` has returned, so each of them has to call `abandon` if it fails.
    filters: abandon
      ? filters.map((filter) => (message) => orElse(() => filter(message), abandon))
      : filters,
    ownId: forwarded.ownId,
    isSingle: list !== undefined,
    sealLong: () => new LongAnswerSeal(call.seal, call.metering),
    isHeldWhole: list !== undefined || presentation !== undefined || restore !== undefined,
    isAlways200: forwarded.isAlways200,
    stream: forwarded.stream,
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
  { admission, seal, presentation, metering }: MessageCall,
  { answer, ownId, restore }: Forwarded,
  list: Filter | undefined,
): Filter[] {
  const filters: (Filter | undefined)[] = [
    allowedNotifications(admission.scopes),
    presentation && answer.status === 200 ? presented(presentation) : undefined,
    list,
    ownId && ownResponse(ownId.id),
    restore,
    sealed(seal, metering),
    metering.resultFilter,
  ];
  return filters.filter((filter) => filter !== undefined);
}

/** The filters of a listening stream. */
export function listeningFilters({ admission, seal, metering }: Call): Filter[] {
  return [allowedNotifications(admission.scopes), sealed(seal, metering)].filter(
    (filter) => filter !== undefined,
  );
}

/** What the answer to a call depends on, besides the message: how it ends, counts and fails. */
export function replyOptions(
  call: Call,
  { refuse }: GatewayParts,
  limits: ServerLimits | undefined,
): Omit<ReplyOptions, 'accepts' | 'filters'> {
  const { ending, held, finish } = call;
  const caller = callerOf(call);
  const report = (cause: unknown) => {
    const isKnown = cause instanceof UpstreamError || cause instanceof GatewayRefusal;
    if (!isKnown) return undefined;
    const { body } = refuse(
      cause instanceof GatewayRefusal ? cause : answerBrokeOff(cause),
      caller,
    );
    return typeof body === 'string' ? body : '';
  };
  return {
    maxBytes: limits?.answerBytes || Infinity,
    signal: ending.signal,
    held,
    finish,
    // A listening stream answers no request, so it cannot end with an error response.
    report: caller.id === 'null' ? undefined : report,
    cut: (refusal) => void refuse(refusal, caller),
  };
}
