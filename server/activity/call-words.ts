import type { CallEnd, GapReason, UpstreamAccount } from '#model/calls';

/** How calls end, as pages name it. */
export const endWords: Readonly<Record<CallEnd, string>> = {
  ok: 'OK',
  tool_error: 'Tool error',
  protocol_error: 'Protocol error',
  refused: 'Refused',
  upstream_error: 'Server error',
  cancelled: 'Cancelled',
  unknown: 'Unknown',
};

/** Why the calls of a gap are incomplete, as words after `are`. */
export const gapWords: Readonly<Record<GapReason, string>> = {
  queue_full: 'missing: the queue was full',
  ends_dropped: 'without an outcome: the queue was full when they ended',
  unknown: 'missing: a later version recorded why',
};

/** The credentials that were sent to the MCP server with a call, as pages name them. */
export const accountWords: Readonly<Record<UpstreamAccount, string>> = {
  none: 'No credentials',
  fixed_headers: 'The headers that an administrator entered',
  server_account: 'The account of the server',
  person_account: 'The account of the person who called',
  person_key: 'The own key of the person who called',
  oauth_account: 'An account at the upstream',
};
