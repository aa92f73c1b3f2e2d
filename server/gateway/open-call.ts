import { Ending } from '#model/ending';
import { type Admission, ownerOf } from './admission.ts';
import type { Admitted, Arrived, Call, Caller, MessageCall } from './call.ts';
import { awaitsToolResult } from './connect-account.ts';
import type { GatewayParts, RefusedCaller } from './gateway-parts.ts';
import { GatewayRefusal, isUpstreamFailure } from './gateway-refusal.ts';
import { HeldAnswers } from './held-answers.ts';
import type { AnsweredOutcome, AnswerFacts, Metering } from './metering.ts';
import { countedFor } from './open-answers.ts';
import { slownessIn } from './reply.ts';
import { principalSeal } from './seal.ts';
import type { Upstream } from './upstream.ts';
import type { WholeCall } from './whole-call.ts';

const maxOpenPerCredential = 1024;

/** The `Caller` of an admission, cached for as long as the admission exists. */
export function callerWith(
  admission: Admission,
  { ports, callers }: Pick<GatewayParts, 'ports' | 'callers'>,
): Caller {
  const known = callers.get(admission);
  if (known) return known;
  const { endpoint, principal } = admission;
  const owner = ownerOf(principal, endpoint.id);
  const upstream = ports.upstreamOf(endpoint.target, owner, admission);
  const caller: Caller = {
    owner,
    seal: principalSeal(owner, ports.mac),
    upstream,
    connected: whileConnected(admission, upstream),
    holder: { organization: endpoint.organization, caller: countedFor(admission) },
  };
  callers.set(admission, caller);
  return caller;
}

/** The call to a collection that calls to its members are parts of; `undefined` if the server is not a collection. */
export function wholeCall({ endpoint }: Admission, metering: Metering): WholeCall | undefined {
  return endpoint.target.upstream.kind === 'collection' ? metering.whole : undefined;
}

/**
 * Adds the call to the open calls, which end when their caller loses access.
 *
 * @throws {GatewayRefusal} `too_many_requests`
 */
export function openCall(
  { request, metering, proved, admission, headers, node }: Admitted,
  parts: GatewayParts,
): Call {
  const { open, reaper, memory, answerMemory } = parts;
  const { owner, seal, upstream, connected, holder } = callerWith(admission, parts);
  if (open.count(admission) >= maxOpenPerCredential) {
    throw new GatewayRefusal('too_many_requests', {
      detail: `this credential already has ${maxOpenPerCredential} open requests`,
      retryAfterSeconds: 1,
    });
  }
  const ending = new Ending();
  reaper.note(owner, admission.access);
  const opened = open.add(connected, ending);
  const held = new HeldAnswers(answerMemory, holder, (refusal) => ending.abort(refusal));
  const received = memory.body(holder, held.giveUp);
  const afterwards: (() => void)[] = [];
  const finish = (outcome?: AnsweredOutcome, facts?: AnswerFacts) => {
    opened.over();
    received.release();
    for (let act = afterwards.shift(); act; act = afterwards.shift()) act();
    held.over();
    if (outcome) metering.answered(outcome, facts);
  };
  return {
    request,
    metering,
    proved,
    admission,
    headers,
    node,
    target: admission.endpoint.target,
    upstream: held.counted(upstream, wholeCall(admission, metering)),
    ending,
    owner,
    seal,
    arrived: (bytes) => received.take(bytes),
    held,
    opened,
    afterwards,
    finish,
  };
}

/** An admission that also ends when the account at the upstream is disconnected. */
function whileConnected(admission: Admission, { isConnected }: Upstream): Admission {
  if (!isConnected) return admission;
  const now = async () => {
    const granted = await admission.now();
    return granted && (await isConnected()) ? granted : undefined;
  };
  return { ...admission, now };
}

/** Ends a call that failed, if it was open. Returns the refusal that its caller gets. */
export function endFailed(call: Arrived | Call, error: unknown): GatewayRefusal {
  const cause = 'ending' in call ? endOpen(call, error) : error;
  return cause instanceof GatewayRefusal ? cause : new GatewayRefusal('fault', { cause });
}

function endOpen({ ending, finish }: Call, error: unknown): unknown {
  finish();
  const wasEnded = ending.signal.aborted;
  // Nothing reads what the upstream still sends.
  ending.abort();
  if (!wasEnded || !isBreak(error)) return error;
  return slownessIn(ending.signal) ?? new GatewayRefusal('cancelled', { cause: error });
}

/** Whether the error only reports that the answer broke off, as happens when the call is ended. */
function isBreak(error: unknown): boolean {
  return !(error instanceof GatewayRefusal) || isUpstreamFailure(error.code);
}

/** The id of a request, as JSON text; `null` as long as it is not known. */
export function idOf(call: Arrived): string {
  return (call as Arrived & Partial<MessageCall>).envelope?.id ?? 'null';
}

/** The caller of a request, as far as its steps have found out. */
export function callerOf(call: Arrived): RefusedCaller {
  const { request, admission, body, envelope, era } = call as Arrived & Partial<MessageCall>;
  return {
    request,
    id: idOf(call),
    era: era ?? 'legacy',
    principal: admission?.principal,
    awaitsToolResult: body && envelope ? awaitsToolResult({ body, envelope }) : false,
  };
}
