import type { IncomingHttpHeaders } from 'node:http';

import { encodeHeader, mirroredName, modernVersions } from './era.ts';
import type { Envelope } from './json-scan.ts';

const bothForms = 'application/json, text/event-stream';

/** Headers of every POST to an upstream. Nothing of the caller's is copied but what is named here. */
export const postHeaders: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  accept: bothForms,
};

const traceParent = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const stateMember =
  /^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const mostStateMembers = 32;

/**
 * The trace that a request belongs to, as its caller says: ids that an operator finds the same call by in several logs.
 * What is not well-formed is left out, `tracestate` also where its `traceparent` is. `baggage` never goes on: it is free
 * text of the caller's, and an upstream is somebody else.
 *
 * W3C Trace Context §3
 */
export function traceHeaders(
  callers: Readonly<Record<string, string | readonly string[] | undefined>>,
): Record<string, string> {
  const { traceparent, tracestate } = callers;
  if (typeof traceparent !== 'string' || !traceParent.test(traceparent)) return {};
  const isState = typeof tracestate === 'string' && isTraceState(tracestate);
  return { traceparent, ...(isState && { tracestate }) };
}

function isTraceState(text: string): boolean {
  const members = text.split(',').map((member) => member.replaceAll(/^[ \t]+|[ \t]+$/g, ''));
  const named = members.filter((member) => member !== '');
  const keys = new Set(named.map((member) => member.split('=', 1)[0]));
  if (keys.size !== named.length || named.length > mostStateMembers) return false;
  return named.length > 0 && named.every((member) => stateMember.test(member));
}

/**
 * Headers of a modern request, derived from the body and not from the caller's headers; of these only
 * the `Mcp-Param-*` go on, which the upstream checks against the body itself, and the trace.
 *
 * MCP 2026-07-28 transports, "Request metadata"
 */
export function modernHeaders(
  envelope: Envelope,
  callers: IncomingHttpHeaders = {},
): Record<string, string> {
  const version = envelope.protocolVersion ?? modernVersions[0] ?? '';
  const name = mirroredName(envelope);
  const headers: Record<string, string> = {
    ...postHeaders,
    'mcp-protocol-version': version,
    'mcp-method': envelope.method ?? '',
    ...(name !== undefined && { 'mcp-name': encodeHeader(name) }),
    ...traceHeaders(callers),
  };
  for (const [header, value] of Object.entries(callers)) {
    if (header.startsWith('mcp-param-') && typeof value === 'string') headers[header] = value;
  }
  return headers;
}

/** Headers of a legacy request but for its trace: its version, and the upstream's own name for the session. */
export function legacyHeaders(
  callers: IncomingHttpHeaders,
  upstreamSessionId?: string,
): Record<string, string> {
  const version = callers['mcp-protocol-version'];
  return {
    ...postHeaders,
    ...(typeof version === 'string' && { 'mcp-protocol-version': version }),
    ...(upstreamSessionId !== undefined && { 'mcp-session-id': upstreamSessionId }),
  };
}
