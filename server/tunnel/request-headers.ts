/** `docs/tunnel.md`, "Frames" */
const forwarded = new Set([
  'content-type',
  'accept',
  'mcp-session-id',
  'mcp-protocol-version',
  'mcp-method',
  'mcp-name',
  'last-event-id',
  'traceparent',
  'tracestate',
]);

/** The headers that go through a tunnel, and no others. */
export function forwardedHeaders(
  headers: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => forwarded.has(name) || name.startsWith('mcp-param-'),
    ),
  );
}

/** Whether the answer to a request has no end of its own. MCP 2025-11-25 and 2026-07-28 transports */
export function isListening({
  method,
  headers,
}: {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
}): boolean {
  return method === 'GET' || headers['mcp-method'] === 'subscriptions/listen';
}
