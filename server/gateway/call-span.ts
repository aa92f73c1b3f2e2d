import { createHash } from 'node:crypto';

import type { Envelope, Message } from 'latchkey-mcp/message';
import type { OpenSpan, Tracing } from 'latchkey-mcp/tracing';
import type { CallEnd } from '#model/calls';
import type { RefusalCode } from './gateway-refusal.ts';
import type { GatewayAnswer, GatewayRequest } from './request.ts';

/** The error that a span ends with, as `error.type` and `rpc.response.status_code` of the OpenTelemetry conventions for MCP. */
export interface SpanError {
  /** The JSON-RPC code, `tool_error`, or a code of the gateway. */
  readonly type: string;
  /** The JSON-RPC code of the answer, if it has one. */
  readonly rpcCode?: string | undefined;
  readonly refusal?: RefusalCode | undefined;
}

/** The span of a call. */
export class CallSpan {
  /** The headers of the request, with the trace context of the span, so that what is sent for the request becomes a part of the span. */
  readonly headers: GatewayRequest['headers'];
  readonly #request: GatewayRequest;
  readonly #span: OpenSpan;

  /**
   * `startedAtMs` is in milliseconds since 1970. `message` is absent if none was read. On a request passed on by another node,
   * the headers name the parent, because that node has already continued the trace in the message.
   */
  constructor(
    tracing: Tracing,
    request: GatewayRequest,
    {
      startedAtMs,
      message,
    }: { readonly startedAtMs: number; readonly message?: Message | undefined },
  ) {
    const { method, organization, server, headers, address } = request;
    this.#request = request;
    this.#span = tracing.begin(`${method} /mcp`, headers, {
      kind: 'server',
      attributes: {
        'latchkey.server': `${organization}/${server}`,
        'http.request.method': method,
        'network.transport': 'tcp',
        ...(address !== undefined && { 'client.address': address }),
      },
      startedAtMs,
      message: request.isPassedOn ? undefined : message,
    });
    // `tracestate` belongs to the trace that the caller named, and is dropped if the span does not continue that trace.
    const { traceparent, tracestate } = this.#span;
    const { tracestate: _dropped, ...others } = headers;
    this.headers = { ...others, ...(tracestate !== undefined && { tracestate }), traceparent };
  }

  /** `envelope` is absent if no message was read. */
  end(envelope: Envelope | undefined, isInSession: boolean, error: SpanError | undefined): void {
    const { headers } = this.#request;
    const header = headers['mcp-protocol-version'];
    const version = envelope?.protocolVersion ?? (typeof header === 'string' ? header : undefined);
    const sessionId = isInSession ? headers['mcp-session-id'] : undefined;
    this.#span.describe(envelope, version);
    this.#span.set({
      ...(typeof sessionId === 'string' && { 'mcp.session.id': sessionName(sessionId) }),
      ...(error?.rpcCode !== undefined && { 'rpc.response.status_code': error.rpcCode }),
      ...(error?.refusal && { 'latchkey.refusal': error.refusal }),
    });
    this.#span.end(error?.type);
  }
}

/** Tells sessions apart without their ids, which are as secret as a credential. */
function sessionName(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 16);
}

/** The error of a call that was refused or failed. A cancelled call has none. */
export function refusedError(
  refusal: RefusalCode,
  { errorCode }: Pick<GatewayAnswer, 'errorCode'>,
): SpanError | undefined {
  if (refusal === 'cancelled') return undefined;
  const rpcCode = errorCode === undefined ? undefined : String(errorCode);
  return { type: rpcCode ?? refusal, rpcCode, refusal };
}

/**
 * The error that a call was answered with. A failed tool has no code, because JSON-RPC counts it as a result.
 */
export function answeredError(
  outcome: 'ok' | 'tool-error' | 'upstream-error',
  { end, error }: { readonly end?: CallEnd | undefined; readonly error?: string | undefined },
): SpanError | undefined {
  switch (outcome) {
    case 'ok':
      return undefined;
    case 'upstream-error':
      return { type: error ?? 'upstream_error' };
    case 'tool-error': {
      if (end !== 'protocol_error') return { type: 'tool_error' };
      return { type: error ?? '_OTHER', rpcCode: error };
    }
  }
}
