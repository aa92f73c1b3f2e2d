import { formatScopes, ordinaryScopes } from '#model/scopes';
import { protectedResourceMetadataUrl } from '#oauth/metadata';
import { type Era, modernVersions } from 'latchkey-mcp/headers';
import { accountErrors, failedTool } from './connect-account.ts';
import {
  type ClosedCode,
  type GatewayRefusal,
  meaningOf,
  type RefusalCode,
  type RefusalDetails,
  type UpstreamFailure,
} from './gateway-refusal.ts';
import { jsonAnswer } from './reply.ts';
import type { GatewayAnswer } from './request.ts';

/** The properties of a request that its error answer depends on. */
export interface FailedRequest {
  readonly base: string;
  readonly serverPath: string;
  readonly era: Era;
  /** The JSON text of the id; `null` if the body was not understood. */
  readonly id: string;
  /** Whether the request calls a tool, so that the result of a failed tool can answer it. */
  readonly awaitsToolResult?: boolean;
  /** The name of the server, if it is called as a member of a collection. Errors then name it, because the caller does not know the member. */
  readonly member?: string | undefined;
}

interface Words {
  readonly status: number;
  /** JSON-RPC error code. */
  readonly code: number;
  readonly message: string;
  readonly data?: object;
  readonly headers?: Record<string, string>;
  /** Whether the caller of a tool gets the message as the result of the tool. */
  readonly isForTheModel?: boolean;
}

/** Makes the error that a caller gets for a refusal code. */
type WordsOf = (details: RefusalDetails, request: FailedRequest) => Words;

/** Maps a refusal to HTTP and JSON-RPC. */
export function errorAnswer(refusal: GatewayRefusal, request: FailedRequest): GatewayAnswer {
  const { status, code, message, data, headers, isForTheModel } = words[refusal.code](
    refusal.details,
    request,
  );
  if (isForTheModel && request.awaitsToolResult) {
    return jsonAnswer(
      200,
      `{"jsonrpc":"2.0","id":${request.id},"result":${failedTool(message, request.era)}}`,
    );
  }
  const retryAfter = refusal.details.retryAfterSeconds;
  const named = request.member === undefined ? message : `${request.member}: ${message}`;
  const error = JSON.stringify({ code, message: named, ...(data && { data }) });
  return {
    // Without an id, clients cannot match the error to a request, so the status must show that it was refused.
    status: status === 200 && request.id === 'null' ? 400 : status,
    headers: {
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      ...headers,
      ...(retryAfter !== undefined && { 'Retry-After': String(retryAfter) }),
    },
    body: `{"jsonrpc":"2.0","id":${request.id},"error":${error}}`,
    errorCode: code,
    refused: meaningOf(refusal),
  };
}

/** Errors about the credential and the origin of a caller. */
const credentials = {
  no_credential: (_details, request) => ({
    status: 401,
    code: -32001,
    message:
      'sign-in required: send an access token as Authorization: Bearer, or an API key (mcp_…) as X-API-Key',
    headers: challenge(request, { scope: formatScopes(ordinaryScopes) }),
  }),
  bad_credential: (_details, request) => invalidToken('invalid or expired credentials', request),
  suspended: ({ detail = '' }, request) => invalidToken(detail, request, detail),
  two_credentials: always(
    400,
    -32600,
    'send exactly one credential: either Authorization or X-API-Key',
  ),
  insufficient_scope: ({ detail = '', scopes = [] }, request) => ({
    status: 403,
    code: -32003,
    message: `missing scope: ${detail}`,
    headers: challenge(request, { scope: formatScopes(scopes), error: 'insufficient_scope' }),
  }),
  foreign_origin: ({ detail = '' }) => ({
    status: 403,
    code: -32600,
    message: `web pages from ${detail} are not allowed to call this endpoint: see --allowed-origin`,
  }),
} satisfies Partial<Record<RefusalCode, WordsOf>>;

/** Errors about HTTP requests and messages that are not as MCP requires. */
const messages = {
  method_not_allowed: always(
    405,
    -32600,
    'send a JSON-RPC message with POST; GET and DELETE require an Mcp-Session-Id',
    { headers: { Allow: 'POST, GET, DELETE' } },
  ),
  unsupported_media_type: always(415, -32600, 'Content-Type must be application/json'),
  not_acceptable: always(406, -32600, 'Accept must allow application/json or text/event-stream'),
  too_large: explained(413, -32600, 'the body is too large'),
  too_many_chunks: always(
    400,
    -32600,
    'the body arrives in too many chunks: send at least 64 bytes in each',
    // Parsing the remaining chunks would cost more than a new connection.
    { headers: { Connection: 'close' } },
  ),
  not_json: explained(400, -32700, 'the body is not JSON'),
  not_a_message: explained(400, -32600, 'not a JSON-RPC message'),
  header_mismatch: explained(400, -32020, 'header mismatch'),
  unsupported_version: ({ requested = '' }) => ({
    status: 400,
    code: -32022,
    message: 'unsupported protocol version',
    data: { supported: modernVersions, requested },
  }),
  unknown_method: (details, { era }) =>
    explained(era === 'modern' ? 404 : 200, -32601, 'method not found')(details),
  bad_params: ({ detail = '' }, { era }) => badParams(era, detail),
  bad_meta: ({ detail = '' }) => ({ status: 400, code: -32602, message: detail }),
  not_theirs: ({ detail = '' }, { era }) => badParams(era, `unknown ${detail}`),
  unknown_session: always(404, -32001, 'session not found: initialize again'),
  unknown_event: always(
    400,
    -32600,
    'the events after this one are no longer stored: send the request again',
  ),
  unexpected_response: always(400, -32600, 'no request with this id is waiting for a response'),
} satisfies Partial<Record<RefusalCode, WordsOf>>;

const unknownTool = explained(200, -32602, 'unknown tool');
const unknownPrompt = explained(200, -32602, 'unknown prompt');
/** The eras have different codes. MCP 2025-11-25 and 2026-07-28 server/resources, "Error Handling" */
const unknownResource: WordsOf = (details, { era }) => ({
  ...explained(200, era === 'modern' ? -32602 : -32002, 'resource not found')(details),
  data: { uri: details.detail ?? '' },
});

/** Errors about tools, prompts and resources that a caller may not use. */
const closed: Record<ClosedCode, WordsOf> = {
  unknown_tool: unknownTool,
  hidden_tool: unknownTool,
  withheld_tool: unknownTool,
  closed_tool: unknownTool,
  unknown_prompt: unknownPrompt,
  closed_prompt: unknownPrompt,
  unknown_resource: unknownResource,
  closed_resource: unknownResource,
};

const unreachable = always(502, -32000, 'the MCP server behind this endpoint cannot be reached');
const failed = explained(502, -32000, 'the MCP server behind this endpoint failed');
const busy = always(503, -32000, 'the MCP server behind this endpoint is busy');

const upstreams: Record<UpstreamFailure, WordsOf> = {
  upstream_unreachable: unreachable,
  upstream_unknown_host: unreachable,
  upstream_not_public: unreachable,
  upstream_tls_failed: unreachable,
  upstream_not_served: unreachable,
  upstream_timeout: failed,
  upstream_broke_off: failed,
  upstream_refused_credentials: failed,
  upstream_not_found: failed,
  upstream_method_not_allowed: failed,
  upstream_redirected: failed,
  upstream_rate_limited: busy,
  upstream_busy: busy,
  upstream_server_error: failed,
  upstream_not_json: failed,
  upstream_unreadable: failed,
  upstream_too_large: failed,
  unreadable_tools: failed,
  unreadable_list: failed,
  upstream_failed: failed,
};

const words: Record<RefusalCode, WordsOf> = {
  ...credentials,
  ...messages,
  ...closed,
  ...upstreams,
  ...accountErrors,
  cancelled: always(200, -32800, 'the request was cancelled'),
  too_many_requests: explained(429, -32000, 'too many requests'),
  too_slow: explained(504, -32000, 'the call was stopped'),
  agent_offline: always(503, -32000, 'the agent that serves this endpoint is offline'),
  node_unreachable: ({ detail = '' }) =>
    unavailable(`another node has ${detail}, and cannot be reached now: try again soon`),
  node_lost: always(
    502,
    -32000,
    'the connection to the node that answers was lost, so whether the request took effect is unknown',
    { data: { outcome: 'unknown' } },
  ),
  unavailable: ({ detail }) =>
    unavailable(detail || 'access cannot be checked right now; try again later'),
  not_recorded: () =>
    unavailable(
      'the call was not sent, because it cannot be recorded right now, as the operator requires; try again later',
    ),
  fault: always(500, -32603, 'internal error'),
};

function always(
  status: number,
  code: number,
  message: string,
  more: Pick<Words, 'data' | 'headers'> = {},
): () => Words {
  return () => ({ status, code, message, ...more });
}

/** A message that ends with the details of the refusal. */
function explained(
  status: number,
  code: number,
  message: string,
): (details: RefusalDetails) => Words {
  return ({ detail, isOutcomeUnknown }) => ({
    status,
    code,
    message: detail ? `${message}: ${detail}` : message,
    ...(isOutcomeUnknown && { data: { outcome: 'unknown' } }),
  });
}

function badParams(era: Era, message: string): Words {
  return { status: era === 'modern' ? 400 : 200, code: -32602, message };
}

function unavailable(message: string): Words {
  return { status: 503, code: -32000, message, headers: { 'Retry-After': '1' } };
}

function invalidToken(message: string, request: FailedRequest, description?: string): Words {
  const scope = formatScopes(ordinaryScopes);
  const headers = challenge(request, { scope, error: 'invalid_token', description });
  return { status: 401, code: -32001, message, headers };
}

/** `WWW-Authenticate`. RFC 6750 §3, RFC 9728 §5.1 */
function challenge(
  { base, serverPath }: FailedRequest,
  {
    scope,
    error,
    description,
  }: { scope: string; error?: string; description?: string | undefined },
): Record<string, string> {
  const metadata = `resource_metadata="${protectedResourceMetadataUrl(base, serverPath)}"`;
  const parts = [
    ...(error === undefined ? [] : [`error="${error}"`]),
    ...(description === undefined ? [] : [`error_description="${description}"`]),
    metadata,
    `scope="${scope}"`,
  ];
  return { 'WWW-Authenticate': `Bearer ${parts.join(', ')}` };
}
