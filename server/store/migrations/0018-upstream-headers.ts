/** Headers that the requests to an upstream carry, and when the upstream refused their present values. */
export const upstreamHeaders: readonly string[] = [
  // Null where there are none: every call reads it.
  `alter table mcp_server add column upstream_headers text`,
  `alter table mcp_server add column upstream_headers_refused_at bigint`,
];
