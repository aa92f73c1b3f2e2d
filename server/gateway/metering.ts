import { membersIn } from 'latchkey-mcp/json-edit';
import { traceHeaders } from 'latchkey-mcp/headers';
import type { Envelope } from 'latchkey-mcp/message';
import type { OpenSpan, Tracing } from 'latchkey-mcp/tracing';
import type { Admission } from './admission.ts';
import { type GatewayRefusal, isDenial, type RefusalCode } from './gateway-refusal.ts';
import type { AnswerMessage } from './filters.ts';
import type { GatewayRequest } from './request.ts';

/** How a call ended, as usage counts it. */
export type CallOutcome =
  | 'ok'
  /** The MCP server or the gateway answered with an error, of a tool or of the protocol. */
  | 'tool-error'
  /** Denied. The audit log records such calls, too. */
  | 'refused'
  | 'upstream-error';

/** How an answer that had begun ended. A caller that leaves before the end is not an error. */
export type AnsweredOutcome = Exclude<CallOutcome, 'refused'>;

/** An admitted request, and how it ended. */
export interface MeteredCall {
  readonly serverId: string;
  /** The target that it was for. */
  readonly targetId: string;
  readonly credential: Admission['credential'];
  /** The person who calls, or for whom an application calls. */
  readonly userId?: string | undefined;
  /** `undefined` when it was refused before its body was read. */
  readonly method: string | undefined;
  /** As the caller wrote it. There may be no such tool. */
  readonly tool: string | undefined;
  readonly outcome: CallOutcome;
  /** From its arrival to the end of its answer. */
  readonly ms: number;
}

/** Notes calls, with the `ORG/SERVER` of each. Called for every request, so it neither waits nor throws. */
export type NoteCall = (call: MeteredCall & { readonly serverPath: string }) => void;

const unanswered: ReadonlySet<RefusalCode> = new Set([
  'upstream_unreachable',
  'upstream_failed',
  'upstream_busy',
  'unreadable_tools',
  'too_slow',
  'agent_offline',
  'node_unreachable',
  'node_lost',
  'unavailable',
  'fault',
]);

/**
 * Follows one request from its arrival to the end of its answer, and then notes it, once. Only admitted requests whose
 * answer has an end are noted: no notifications and no listening streams.
 */
export class Metering {
  readonly #startedAt = performance.now();
  readonly #note: NoteCall;
  #admission: Admission | undefined;
  #envelope: Envelope | undefined;
  #span: OpenSpan | undefined;

  constructor(note: NoteCall) {
    this.#note = note;
  }

  /** Starts counting it, for this caller and server. */
  admitted(admission: Admission): void {
    this.#admission = admission;
  }

  read(envelope: Envelope): void {
    this.#envelope = envelope;
  }

  /**
   * Begins a span, which started when the request arrived. Returns the headers of the request with the trace context of
   * the span, so that what is sent on behalf of the request continues the trace below it.
   */
  trace(
    tracing: Tracing,
    { method, organization, server, headers }: GatewayRequest,
  ): GatewayRequest['headers'] {
    const { traceparent } = (this.#span = tracing.begin(`${method} /mcp`, headers, {
      kind: 'server',
      attributes: { 'latchkey.server': `${organization}/${server}`, 'http.request.method': method },
      startedAtMs: Date.now() - (performance.now() - this.#startedAt),
    }));
    // `tracestate` belongs to the trace that the caller named, and is dropped without it.
    const { tracestate, ...others } = headers;
    const continues = traceHeaders(headers)['traceparent'] !== undefined;
    return { ...others, ...(continues && tracestate !== undefined && { tracestate }), traceparent };
  }

  /** Another node answers it, and counts it. */
  passedOn(): void {
    this.#admission = undefined;
  }

  /** The call was refused or failed. */
  failed(refusal: GatewayRefusal): void {
    const { code } = refusal;
    this.#spanOver(code === 'cancelled' ? undefined : code);
    if (code === 'cancelled') this.#over('ok');
    else if (unanswered.has(code)) this.#over('upstream-error');
    else this.#over(isDenial(refusal) ? 'refused' : 'tool-error');
  }

  /** Its answer was sent to the end, or until its caller left. */
  answered(outcome: AnsweredOutcome): void {
    this.#spanOver(outcome === 'ok' ? undefined : outcome);
    this.#over(outcome);
  }

  #spanOver(error: string | undefined): void {
    const span = this.#span;
    if (!span) return;
    this.#span = undefined;
    const { method, name } = this.#envelope ?? {};
    span.describe(method, method === 'tools/call' ? name : undefined);
    span.end(error);
  }

  #over(outcome: CallOutcome): void {
    const admission = this.#admission;
    this.#admission = undefined;
    if (!admission || !isCall(this.#envelope)) return;
    const { method, name } = this.#envelope ?? {};
    this.#note({
      serverId: admission.endpoint.id,
      targetId: admission.endpoint.target.id,
      serverPath: `${admission.endpoint.organization}/${admission.endpoint.name}`,
      credential: admission.credential,
      userId: admission.userId,
      method,
      tool: method === 'tools/call' ? name : undefined,
      outcome,
      ms: performance.now() - this.#startedAt,
    });
  }
}

/**
 * Whether a message is a request whose answer has an end. A message that was refused unread counts as one, because most
 * messages are calls.
 */
export function isCall(envelope: Envelope | undefined): boolean {
  if (!envelope) return true;
  return envelope.kind === 'request' && envelope.method !== 'subscriptions/listen';
}

const maxErrorBytes = 64 * 1024;
const marks = ['"isError"', '"error"'];

/**
 * Whether a message of an answer is an error, of a tool or of the protocol. Only a message that contains one of `marks`
 * is parsed. A message of more than 64 KiB does not count as an error, because errors are short.
 *
 * JSON-RPC 2.0 §5.1; MCP 2025-11-25 tools, "Error Handling"
 */
export function isErrorAnswer(message: AnswerMessage): boolean {
  const { bytes } = message;
  if (bytes.length > maxErrorBytes || !marks.some((mark) => message.holds(mark))) return false;
  const { scan } = message;
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') return false;
  const members = membersIn(bytes, scan.envelope.root);
  if (members.has('error')) return true;
  const result = members.get('result');
  const isError = result && membersIn(bytes, result).get('isError');
  return isError !== undefined && bytes.toString('utf8', isError.start, isError.end) === 'true';
}
