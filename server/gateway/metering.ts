import { createHash, randomBytes } from 'node:crypto';

import { memberIn } from 'latchkey-mcp/json-edit';
import type { Envelope, Message } from 'latchkey-mcp/message';
import type { Tracing } from 'latchkey-mcp/tracing';
import { CallContents, type ContentMemory, type ContentSettings } from '#model/call-contents';
import {
  accountOf,
  type AnnouncedApplication,
  type CallEnd,
  type CallRecord,
  type EndedCall,
  recordedMethods,
  type UpstreamAccount,
} from '#model/calls';
import type { Target } from '#model/endpoints';
import type { Admission } from './admission.ts';
import type { Announcing, ApplicationCaller, Applications, ReadMessage } from './applications.ts';
import { isCall, methodsWithContents, passedMethods } from './call-methods.ts';
import { answeredError, CallSpan, refusedError, type SpanError } from './call-span.ts';
import {
  type GatewayRefusal,
  isDenial,
  isUpstreamFailure,
  recordedCode,
  type RefusalCode,
  type SuspendedCall,
} from './gateway-refusal.ts';
import type { Filter } from './filters.ts';
import type { GatewayAnswer, GatewayRequest } from './request.ts';
import type { Upstream } from './upstream.ts';
import { endOfBoth, type PartEnd, type PassedPart, type WholeCall } from './whole-call.ts';

/** How a call ended, as usage counts it. */
export type CallOutcome =
  | 'ok'
  /** The MCP server or the gateway answered with a tool error or a protocol error. */
  | 'tool-error'
  /** Denied. The audit log records such calls, too. */
  | 'refused'
  | 'upstream-error';

/** How an answer that had begun ended. A caller that leaves before the end is not an error. */
export type AnsweredOutcome = Exclude<CallOutcome, 'refused'>;

/** The facts that are recorded of an answer, besides its outcome. */
export interface AnswerFacts {
  /** Default: the end of the task that the answer reports, or else the end for the outcome. */
  readonly end?: CallEnd | undefined;
  /** The code of a JSON-RPC error, or a code of the gateway. */
  readonly error?: string | undefined;
  /** The HTTP status. */
  readonly status?: number | undefined;
  /** The length of the body that was sent. */
  readonly bytes?: number | undefined;
}

/** An admitted request, and how it ended. */
export interface MeteredCall {
  readonly serverId: string;
  /** The target that the call was for. */
  readonly targetId: string;
  readonly credential: Admission['credential'];
  /** The person who calls, or for whom an application calls. */
  readonly userId?: string | undefined;
  /** The application, as it calls itself. */
  readonly application?: string | undefined;
  /** `undefined` when it was refused before its body was read. */
  readonly method: string | undefined;
  /** As the caller wrote it. There may be no such tool. */
  readonly tool: string | undefined;
  readonly outcome: CallOutcome;
  /** `error.type` of its span; `undefined` for a call that did not fail. */
  readonly errorType?: string | undefined;
  /** Milliseconds from the arrival of the request to the end of its answer. */
  readonly ms: number;
}

/** Notes calls, with the `ORG/SERVER` of each. Called for every metered call, so it neither waits nor throws. */
export type NoteCall = (call: MeteredCall & { readonly serverPath: string }) => void;

/** Where metering reports each call. */
export interface MeteringPorts {
  readonly note: NoteCall;
  /**
   * Records a call for Activity, or its end if it was recorded when it began; absent if calls are not recorded. Neither
   * waits nor throws.
   */
  readonly ended?:
    | ((call: EndedCall, begun?: CallRecord, contents?: readonly CallContents[]) => void)
    | undefined;
  /** Records that a call begins. Present only if calls must be recorded before they are sent. */
  readonly begins?: ((call: EndedCall) => Promise<CallRecord>) | undefined;
  /** Bounds the arguments and results that wait to be stored; absent if calls are not recorded. */
  readonly contentMemory?: ContentMemory | undefined;
  /** Whether lists, `initialize`, completion and all other requests are recorded too. */
  readonly recordsAll?: boolean | undefined;
}

/** Codes of calls that failed without an answer, besides the failures of the MCP server. */
const unanswered: ReadonlySet<RefusalCode> = new Set([
  'upstream_scope',
  'upstream_token',
  'key_refused',
  'too_slow',
  'agent_offline',
  'node_unreachable',
  'node_lost',
  'unavailable',
  'not_recorded',
  'fault',
]);

/**
 * Follows one request from its arrival to the end of its answer, and then notes it, once. Only admitted requests whose answer has
 * an end are noted: no notifications, no listening streams, and no requests of Latchkey's pages that only find out what a person
 * can use.
 */
export class Metering {
  readonly #startedAt = performance.now();
  readonly #ports: MeteringPorts;
  readonly #request: GatewayRequest;
  readonly #applications: Applications;
  #admission: Admission | undefined;
  #envelope: Envelope | undefined;
  #message: ReadMessage | undefined;
  #session: Announcing | undefined;
  #traceId: string | undefined;
  #begun: CallRecord | undefined;
  #callId: string | undefined;
  #taskEnd: CallEnd | undefined;
  /** Set for a call to a server that stores arguments or results. */
  #contents: CallContents | undefined;
  /** Set for a call to a collection, once it is sent to a member. */
  #part: PassedPart | undefined;
  /** Whether this request is the call that a collection sent to its member. */
  #isPart = false;
  /** Whether the collection's call has ended. No contents of this request are kept afterwards. */
  #isWholeOver = false;
  #ended: PartEnd | undefined;
  /** Set once the call is sent. */
  #upstream: Pick<Upstream, 'account' | 'secrets'> | undefined;
  /** The application. Set once the call has ended, or once a member has asked for it. */
  #announced: AnnouncedApplication | undefined;
  /** Set until the span begins. */
  #tracing: Tracing | undefined;
  #span: CallSpan | undefined;

  constructor(request: GatewayRequest, ports: MeteringPorts, applications: Applications) {
    this.#request = request;
    this.#ports = ports;
    this.#applications = applications;
  }

  /** Starts to meter the request, for this caller and server. */
  admitted(admission: Admission): void {
    if (!this.#request.isForPage) this.#admission = admission;
  }

  read(message: ReadMessage): void {
    this.#envelope = message.envelope;
    this.#message = message;
  }

  /** The session that the request belongs to, which knows the application. */
  within(session: Announcing): void {
    this.#session = session;
  }

  /** From now on the request has a span, even if it ends before its message is read. */
  traced(tracing: Tracing): void {
    this.#tracing = tracing;
  }

  /**
   * Begins the span, which started when the request arrived. Returns the headers of the request with the trace context of
   * the span, so that what is sent on behalf of the request becomes a part of the span. `undefined` if no span begins.
   */
  beginSpan(message?: Message): GatewayRequest['headers'] | undefined {
    if (!this.#tracing) return undefined;
    const startedAtMs = Date.now() - (performance.now() - this.#startedAt);
    const span = new CallSpan(this.#tracing, this.#request, { startedAtMs, message });
    this.#tracing = undefined;
    this.#traceId = traceIdIn(span.headers);
    this.#span = span;
    return span.headers;
  }

  /** This call, as a collection passes it on with the requests that it sends to members. */
  get whole(): WholeCall {
    return {
      requestId: this.#request.id,
      application: () => {
        if (this.#admission) this.#announced = this.#application(this.#admission);
        return this.#announced;
      },
      join: (part) => {
        const admission = this.#admission;
        if (!admission || this.#part || part.method !== this.#envelope?.method) return undefined;
        this.#part = part;
        return () => this.#recordBeginning(admission);
      },
    };
  }

  /**
   * Records that the call begins, where that is required; its end is recorded later. Rejects if it cannot be recorded.
   * `undefined` if there is nothing to wait for.
   */
  begin(): Promise<void> | undefined {
    const admission = this.#admission;
    if (!admission || !isCall(this.#envelope)) return undefined;
    const { target } = admission.endpoint;
    if (passedMethods.has(this.#envelope?.method ?? '')) {
      // A call to a collection begins when it is sent to a member.
      if (target.upstream.kind === 'collection') return undefined;
      const begin = this.#request.whole?.join(this.#asPart(target));
      this.#isPart = begin !== undefined;
      if (begin) return begin();
    }
    return this.#recordBeginning(admission);
  }

  #recordBeginning(admission: Admission): Promise<void> | undefined {
    const { begins } = this.#ports;
    if (!begins || !this.#isRecorded(this.#envelope?.method)) return undefined;
    const durationMs = performance.now() - this.#startedAt;
    return begins(this.#record(admission, 'unknown', {}, durationMs)).then((row) => {
      this.#begun = row;
    });
  }

  #asPart(target: Target): PassedPart {
    return {
      method: this.#envelope?.method,
      subject: subjectOf(this.#envelope),
      target,
      account: (end, error) => this.#account(target, end, error),
      ended: () => this.#ended,
      takeContents: () => {
        this.#isWholeOver = true;
        return this.#takeContents();
      },
    };
  }

  /** The contents to store, without the secrets that the call was sent with. */
  #takeContents(): CallContents | undefined {
    const contents = this.#contents;
    this.#contents = undefined;
    contents?.hide(this.#upstream?.secrets?.() ?? []);
    return contents;
  }

  /** An id that all requests of one call share: the rounds of a call that needed input, or all requests about a task. 24 hex digits. */
  get callId(): string {
    this.#callId ??= this.#begun?.callId ?? randomBytes(callIdLetters / 2).toString('hex');
    return this.#callId;
  }

  /** The request is another round of this call. */
  continues(callId: string): void {
    this.#callId = callId;
  }

  /** The request began this task, or is about it. `status` is the status of the task in the answer. */
  isOfTask(sealedId: string, status?: string): void {
    // Readers of a row must not learn the id of the task.
    this.#callId = createHash('sha256').update(sealedId).digest('hex').slice(0, callIdLetters);
    if (this.#envelope?.method === 'tasks/get') this.#taskEnd = taskEnds.get(status ?? '');
  }

  /** The request is sent to the MCP server. By the end of the call, the upstream knows whose account it was sent with. */
  sentThrough(upstream: Pick<Upstream, 'account' | 'secrets'>): void {
    this.#upstream = upstream;
    const { contents, id } = this.#admission?.endpoint.target ?? {};
    if (contents && id !== undefined) this.#keepArguments(id, contents);
  }

  /** Keeps the arguments of a call that is sent, if the server stores them. */
  #keepArguments(targetId: string, settings: ContentSettings): void {
    const { contentMemory } = this.#ports;
    const message = this.#message;
    if (!contentMemory || !message || this.#isWholeOver) return;
    if (!settings.arguments && !settings.results) return;
    const { kind, method = '', params } = message.envelope;
    if (kind !== 'request' || !methodsWithContents.has(method)) return;
    this.#contents = new CallContents(targetId, settings, contentMemory);
    if (!settings.arguments || !params) return;
    const given = memberIn(message.received, params, 'arguments');
    if (given) this.#contents.keep('arguments', message.received, given);
  }

  /** Passes the messages of an answer on and keeps the result; `undefined` if the server stores none. */
  get resultFilter(): Filter | undefined {
    const contents = this.#contents;
    if (!contents?.settings.results) return undefined;
    return (message) => {
      const { bytes, scan } = message;
      if (
        this.#contents !== contents ||
        scan.outcome === 'refused' ||
        scan.envelope.kind !== 'response'
      )
        return message;
      const { result, root } = scan.envelope;
      const kept = result ?? memberIn(bytes, root, 'error');
      if (kept) contents.keep('result', bytes, kept);
      return message;
    };
  }

  /** Another node answers and counts the request. */
  passedOn(): void {
    this.#admission = undefined;
  }

  /** The call was refused or failed, and its caller gets this answer. */
  failed(refusal: GatewayRefusal, answer: GatewayAnswer): void {
    const { code, details } = refusal;
    const { status, body } = answer;
    const facts = { status, bytes: typeof body === 'string' ? Buffer.byteLength(body) : 0 };
    const error = refusedError(code, answer);
    this.#spanOver(error);
    const recorded = recordedCode(refusal);
    if (details.suspended) this.#suspended(details.suspended, { ...facts, error: recorded });
    if (code === 'cancelled') this.#over('ok', { ...facts, end: 'cancelled' }, error);
    else if (unanswered.has(code) || isUpstreamFailure(code))
      this.#over('upstream-error', { ...facts, error: code }, error);
    else {
      const outcome = isDenial(refusal) ? 'refused' : 'tool-error';
      this.#over(outcome, { ...facts, end: 'refused', error: recorded }, error);
    }
  }

  /** The answer was sent to its end, or until the caller disconnected. */
  answered(outcome: AnsweredOutcome, facts: AnswerFacts = {}): void {
    const error = answeredError(outcome, facts);
    this.#spanOver(error);
    this.#over(outcome, facts, error);
  }

  #spanOver(error: SpanError | undefined): void {
    this.beginSpan();
    const span = this.#span;
    this.#span = undefined;
    span?.end(this.#envelope, this.#session !== undefined, error);
  }

  #over(outcome: CallOutcome, facts: AnswerFacts, error: SpanError | undefined): void {
    const admission = this.#admission;
    this.#admission = undefined;
    if (!admission || !isCall(this.#envelope)) return this.#takeContents()?.letGo();
    const { method, name } = this.#envelope ?? {};
    const durationMs = performance.now() - this.#startedAt;
    const application = this.#application(admission);
    this.#announced = application;
    this.#ports.note({
      serverId: admission.endpoint.id,
      targetId: admission.endpoint.target.id,
      serverPath: `${admission.endpoint.organization}/${admission.endpoint.name}`,
      credential: admission.credential,
      userId: admission.userId,
      application: application?.text,
      method,
      tool: method === 'tools/call' ? name : undefined,
      outcome,
      errorType: error?.type,
      ms: durationMs,
    });
    const own = { end: facts.end ?? this.#taskEnd ?? endOf[outcome], error: facts.error };
    if (this.#isPart) {
      // The call to the collection records this part, and takes its contents.
      this.#ended = own;
      return;
    }
    const { end, error: code } = endOfBoth(own, this.#part?.ended());
    const contents = [this.#takeContents(), this.#part?.takeContents()].filter(
      (one) => one !== undefined,
    );
    const isRecorded = end === 'refused' || this.#taskEnd || this.#isRecorded(method);
    const { ended } = this.#ports;
    if (ended && isRecorded) {
      const all = { ...facts, error: code };
      ended(this.#record(admission, end, all, durationMs, application), this.#begun, contents);
    } else for (const one of contents) one.letGo();
  }

  /**
   * Records a call that was never admitted, without counting it in usage. A call refused only in the second admission, after a
   * late body, is left to `#over`.
   */
  #suspended(call: SuspendedCall, facts: AnswerFacts): void {
    if (this.#admission || this.#request.isForPage || this.#request.method !== 'POST') return;
    const durationMs = performance.now() - this.#startedAt;
    this.#ports.ended?.(this.#record(call, 'refused', facts, durationMs));
  }

  /** A request that was refused before its body was read counts as a call. */
  #isRecorded(method: string | undefined): boolean {
    return method === undefined || recordedMethods.has(method) || this.#ports.recordsAll === true;
  }

  /** A call that ended before it was sent used no account. A call that begins (`unknown`) will use one. */
  #account(target: Target, end: CallEnd, error: string | undefined): UpstreamAccount {
    const isSent = this.#upstream !== undefined && !withoutAccount.has(error);
    if (!isSent && end !== 'unknown') return 'none';
    const account = accountOf(target);
    return account === 'oauth_account' ? (this.#upstream?.account?.() ?? account) : account;
  }

  #application(caller: ApplicationCaller): AnnouncedApplication | undefined {
    const { whole, headers } = this.#request;
    if (whole) return whole.application();
    return this.#announced ?? this.#applications.of(headers, this.#message, this.#session, caller);
  }

  #record(
    { endpoint, principal, credential, userId, grantId }: Omit<SuspendedCall, 'by'>,
    end: CallEnd,
    { error, status, bytes = 0 }: AnswerFacts,
    durationMs: number,
    application = this.#application({ endpoint, principal }),
  ): EndedCall {
    const { id, address, headers } = this.#request;
    const part = this.#part;
    return {
      callId: this.#callId,
      startedAtMs: Math.round(Date.now() - durationMs),
      durationMs: Math.round(durationMs),
      requestId: id,
      traceId: this.#traceId ?? traceIdIn(headers),
      era: this.#message?.era ?? 'legacy',
      endpoint,
      target: part?.target ?? endpoint.target,
      credential,
      userId,
      ...(grantId !== undefined && { grantId }),
      application,
      address,
      account: part ? part.account(end, error) : this.#account(endpoint.target, end, error),
      method: this.#envelope?.method,
      subject: part ? part.subject : subjectOf(this.#envelope),
      end,
      error,
      status,
      bytesIn: this.#message?.received.length ?? 0,
      bytesOut: bytes,
    };
  }
}

/** The tool or prompt by name, or the resource by URI. A task is not named, because anyone who knows its id can read it. */
function subjectOf({ method, name, uri }: Partial<Envelope> = {}): string | undefined {
  return method?.startsWith('tasks/') ? undefined : (name ?? uri);
}

const endOf = {
  ok: 'ok',
  'tool-error': 'tool_error',
  refused: 'refused',
  'upstream-error': 'upstream_error',
} as const satisfies Record<CallOutcome, CallEnd>;

const callIdLetters = 24;

/** How a task ended, by its status. MCP 2025-11-25 tasks, "Task Status Lifecycle" */
const taskEnds: ReadonlyMap<string, CallEnd> = new Map([
  ['completed', 'ok'],
  ['failed', 'tool_error'],
  ['cancelled', 'cancelled'],
]);

/** The id of the trace that a request belongs to. W3C Trace Context §3.2 */
function traceIdIn({ traceparent }: GatewayRequest['headers']): string | undefined {
  return typeof traceparent === 'string'
    ? /^[\da-f]{2}-([\da-f]{32})-/.exec(traceparent)?.[1]
    : undefined;
}

/** Codes of calls that were not sent because there was no account to send them with. */
const withoutAccount: ReadonlySet<string | undefined> = new Set<RefusalCode>([
  'not_connected',
  'key_missing',
  'no_person',
]);
