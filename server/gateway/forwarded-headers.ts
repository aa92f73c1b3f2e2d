import type { IncomingHttpHeaders } from 'node:http';

import { encodeHeader, mirroredName, modernVersions } from './era.ts';
import type { Envelope } from './json-scan.ts';

const bothForms = 'application/json, text/event-stream';

/** Headers of every POST to an upstream. Nothing of the caller's is copied but what is named here. */
export const postHeaders: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  accept: bothForms,
};

/**
 * Headers of a modern request, derived from the body and not from the caller's headers; of these only
 * the `Mcp-Param-*` go on, which the upstream checks against the body itself.
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
  };
  for (const [header, value] of Object.entries(callers)) {
    if (header.startsWith('mcp-param-') && typeof value === 'string') headers[header] = value;
  }
  return headers;
}

/** Headers of a legacy request: its version, and the upstream's own name for the session. */
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
