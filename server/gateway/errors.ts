import { formatScopes, ordinaryScopes } from '#model/scopes';
import { protectedResourceMetadataUrl } from '#oauth/metadata';
import { type Era, modernVersions } from 'latchkey-mcp/headers';
import { accountError, failedTool } from './connect-account.ts';
import { type GatewayRefusal, meaningOf } from './gateway-refusal.ts';
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
  /** The name of the server, if it is called as a member of a collection. Its errors name it, because the caller does not know which it is. */
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

/** Maps a refusal to HTTP and JSON-RPC. */
export function errorAnswer(refusal: GatewayRefusal, request: FailedRequest): GatewayAnswer {
  const { status, code, message, data, headers, isForTheModel } = words(refusal, request);
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

function words({ code, details }: GatewayRefusal, request: FailedRequest): Words {
  const { detail = '' } = details;
  const because = detail && `: ${detail}`;
  switch (code) {
    case 'no_credential':
      return {
        status: 401,
        code: -32001,
        message:
          'sign-in required: send an access token as Authorization: Bearer, or an API key (mcp_…) as X-API-Key',
        headers: challenge(request, { scope: formatScopes(ordinaryScopes) }),
      };
    case 'bad_credential':
      return {
        status: 401,
        code: -32001,
        message: 'invalid or expired credentials',
        headers: challenge(request, {
          scope: formatScopes(ordinaryScopes),
          error: 'invalid_token',
        }),
      };
    case 'suspended':
      return {
        status: 401,
        code: -32001,
        message: detail,
        headers: challenge(request, {
          scope: formatScopes(ordinaryScopes),
          error: 'invalid_token',
          description: detail,
        }),
      };
    case 'two_credentials':
      return {
        status: 400,
        code: -32600,
        message: 'send exactly one credential: either Authorization or X-API-Key',
      };
    case 'insufficient_scope': {
      const scope = formatScopes(details.scopes ?? []);
      return {
        status: 403,
        code: -32003,
        message: `missing scope: ${detail}`,
        headers: challenge(request, { scope, error: 'insufficient_scope' }),
      };
    }
    case 'foreign_origin':
      return {
        status: 403,
        code: -32600,
        message: `web pages from ${detail} are not allowed to call this endpoint: see --allowed-origin`,
      };
    case 'method_not_allowed':
      return {
        status: 405,
        code: -32600,
        message: 'send a JSON-RPC message with POST; GET and DELETE require an Mcp-Session-Id',
        headers: { Allow: 'POST, GET, DELETE' },
      };
    case 'unsupported_media_type':
      return { status: 415, code: -32600, message: 'Content-Type must be application/json' };
    case 'not_acceptable':
      return {
        status: 406,
        code: -32600,
        message: 'Accept must allow application/json or text/event-stream',
      };
    case 'too_large':
      return {
        status: 413,
        code: -32600,
        message: `the body is too large${because}`,
      };
    case 'too_many_chunks':
      return {
        status: 400,
        code: -32600,
        message: 'the body arrives in too many chunks: send at least 64 bytes in each',
        // Parsing the remaining chunks would cost more than a new connection.
        headers: { Connection: 'close' },
      };
    case 'not_json':
      return { status: 400, code: -32700, message: `the body is not JSON${because}` };
    case 'not_a_message':
      return { status: 400, code: -32600, message: `not a JSON-RPC message${because}` };
    case 'header_mismatch':
      return { status: 400, code: -32020, message: `header mismatch${because}` };
    case 'unsupported_version':
      return {
        status: 400,
        code: -32022,
        message: 'unsupported protocol version',
        data: { supported: modernVersions, requested: details.requested ?? '' },
      };
    case 'unknown_method':
      return {
        status: request.era === 'modern' ? 404 : 200,
        code: -32601,
        message: `method not found${because}`,
      };
    case 'unknown_tool':
    case 'hidden_tool':
    case 'withheld_tool':
    case 'closed_tool':
      return { status: 200, code: -32602, message: `unknown tool${because}` };
    case 'unknown_prompt':
    case 'closed_prompt':
      return { status: 200, code: -32602, message: `unknown prompt${because}` };
    case 'unknown_resource':
    case 'closed_resource':
      // The eras have different codes. MCP 2025-11-25 and 2026-07-28 server/resources, "Error Handling"
      return {
        status: 200,
        code: request.era === 'modern' ? -32602 : -32002,
        message: `resource not found${because}`,
        data: { uri: detail },
      };
    case 'bad_params':
      return { status: request.era === 'modern' ? 400 : 200, code: -32602, message: detail };
    case 'bad_meta':
      return { status: 400, code: -32602, message: detail };
    case 'not_theirs':
      return {
        status: request.era === 'modern' ? 400 : 200,
        code: -32602,
        message: `unknown ${detail}`,
      };
    case 'unknown_session':
      return { status: 404, code: -32001, message: 'session not found: initialize again' };
    case 'unknown_event':
      return {
        status: 400,
        code: -32600,
        message: 'the events after this one are no longer stored: send the request again',
      };
    case 'unexpected_response':
      return {
        status: 400,
        code: -32600,
        message: 'no request with this id is waiting for a response',
      };
    case 'cancelled':
      return { status: 200, code: -32800, message: 'the request was cancelled' };
    case 'too_many_requests':
      return {
        status: 429,
        code: -32000,
        message: `too many requests${because}`,
        ...(details.isOutcomeUnknown && { data: { outcome: 'unknown' } }),
      };
    case 'too_slow':
      return { status: 504, code: -32000, message: `the call was stopped${because}` };
    case 'upstream_unreachable':
    case 'upstream_unknown_host':
    case 'upstream_not_public':
    case 'upstream_tls_failed':
    case 'upstream_not_served':
      return {
        status: 502,
        code: -32000,
        message: 'the MCP server behind this endpoint cannot be reached',
      };
    case 'upstream_timeout':
    case 'upstream_broke_off':
    case 'upstream_refused_credentials':
    case 'upstream_not_found':
    case 'upstream_method_not_allowed':
    case 'upstream_redirected':
    case 'upstream_server_error':
    case 'upstream_not_json':
    case 'upstream_unreadable':
    case 'upstream_too_large':
    case 'unreadable_tools':
    case 'unreadable_list':
    case 'upstream_failed':
      return {
        status: 502,
        code: -32000,
        message: `the MCP server behind this endpoint failed${because}`,
        ...(details.isOutcomeUnknown && { data: { outcome: 'unknown' } }),
      };
    case 'upstream_rate_limited':
    case 'upstream_busy':
      return { status: 503, code: -32000, message: 'the MCP server behind this endpoint is busy' };
    case 'agent_offline':
      return {
        status: 503,
        code: -32000,
        message: 'the agent that serves this endpoint is offline',
      };
    case 'node_unreachable':
      return {
        status: 503,
        code: -32000,
        message: `another node has ${detail}, and cannot be reached now: try again soon`,
        headers: { 'Retry-After': '1' },
      };
    case 'node_lost':
      return {
        status: 502,
        code: -32000,
        message:
          'the connection to the node that answers was lost, so whether the request took effect is unknown',
        data: { outcome: 'unknown' },
      };
    case 'not_connected':
    case 'key_missing':
    case 'key_refused':
    case 'no_person':
    case 'upstream_scope':
    case 'upstream_token':
      return accountError(code, details);
    case 'unavailable':
      return {
        status: 503,
        code: -32000,
        message: detail || 'access cannot be checked right now; try again later',
        headers: { 'Retry-After': '1' },
      };
    case 'not_recorded':
      return {
        status: 503,
        code: -32000,
        message:
          'the call was not sent, because it cannot be recorded right now, as the operator requires; try again later',
        headers: { 'Retry-After': '1' },
      };
    case 'fault':
      return { status: 500, code: -32603, message: 'internal error' };
  }
}

/** `WWW-Authenticate`. RFC 6750 §3, RFC 9728 §5.1 */
function challenge(
  { base, serverPath }: FailedRequest,
  { scope, error, description }: { scope: string; error?: string; description?: string },
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
