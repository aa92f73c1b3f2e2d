import {
  AdministrationRefusal,
  type AdministrationRefusalCode,
  type FieldError,
} from '#admin/refusal';
import { wireName } from '#admin/wire-names';
import { databaseFault } from '#db/faults';
import { OAuthError, type OAuthErrorCode } from '#oauth/oauth-error';
import { TunnelRefusal, type TunnelRefusalCode } from '#upstreams/tunnel/agent-admission';

/** An HTTP response: status, headers, and the members of its JSON body. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: string; readonly error_description: string };
}

export function errorAnswer(
  status: number,
  code: string,
  description: string,
  headers: Record<string, string> = {},
): ErrorAnswer {
  return { status, headers, body: { error: code, error_description: description } };
}

/** The status of an error of the HTTP framework, such as 413 for a body over the limit. */
export function frameworkStatus(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('statusCode' in error)) return undefined;
  const { statusCode } = error;
  return typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500
    ? statusCode
    : undefined;
}

/** The response of an OAuth or metadata endpoint to an error, without private details. RFC 6749 §5.2 */
export function oauthErrorAnswer(error: unknown): ErrorAnswer {
  if (error instanceof OAuthError) {
    const { code, message, challenge, retryAfterSeconds: after } = error;
    const headers: Record<string, string> = {
      ...(challenge !== undefined && { 'WWW-Authenticate': `${challenge} realm="latchkey"` }),
      ...(after !== undefined && { 'Retry-After': String(after) }),
    };
    return errorAnswer(oauthStatus(code), code, message, headers);
  }
  const status = frameworkStatus(error);
  if (status !== undefined) return errorAnswer(status, 'invalid_request', frameworkWords(status));
  if (databaseFault(error) !== undefined) {
    return errorAnswer(
      503,
      'temporarily_unavailable',
      'the database is not available; try again later',
      { 'Retry-After': '1' },
    );
  }
  return errorAnswer(500, 'server_error', 'internal error; see the server log');
}

/** The status of a refusal. RFC 6749 §5.2 */
export function oauthStatus(code: OAuthErrorCode): number {
  switch (code) {
    case 'invalid_client':
      return 401;
    case 'invalid_request':
    case 'invalid_grant':
    case 'unauthorized_client':
    case 'unsupported_grant_type':
    case 'unsupported_response_type':
    case 'access_denied':
    case 'invalid_scope':
    case 'invalid_target':
    case 'invalid_redirect_uri':
    case 'invalid_client_metadata':
      return 400;
    case 'slow_down':
      return 429;
  }
}

/** Describes an error of the HTTP framework by its status. */
export function frameworkWords(status: number): string {
  if (status === 413) return 'the body is too large';
  if (status === 415) return 'the body must be application/x-www-form-urlencoded';
  return 'the request could not be read';
}

/** The response of the admin API to an error: the usual members, and which fields are invalid. */
export function adminErrorAnswer(error: unknown): ErrorAnswer & {
  readonly body: { readonly fields?: readonly FieldError[] };
} {
  if (!(error instanceof AdministrationRefusal)) {
    const { body, ...rest } = oauthErrorAnswer(error);
    if (body.error !== 'invalid_client') return { ...rest, body };
    return invalidToken(body.error_description);
  }
  const { code, message } = error;
  if (code === 'signed_out') return invalidToken(message);
  const fields = error.fields.map(({ field, problem }) => ({ field: wireName(field), problem }));
  const [first] = fields;
  const words = first ? `${first.field} ${first.problem}`.trim() : message;
  const { status, headers, body } = errorAnswer(refusalStatus(code), code, words);
  return { status, headers, body: { ...body, ...(first && { fields }) } };
}

function invalidToken(words: string): ErrorAnswer {
  const headers = { 'WWW-Authenticate': 'Bearer realm="latchkey"' };
  return errorAnswer(401, 'invalid_token', words, headers);
}

function refusalStatus(code: Exclude<AdministrationRefusalCode, 'signed_out'>): number {
  switch (code) {
    case 'not_found':
      return 404;
    case 'forbidden':
    case 'proof_old':
      return 403;
    case 'invalid':
      return 422;
    case 'conflict':
      return 409;
  }
}

/** The response to an agent whose connection is refused. `docs/tunnel.md` */
export function agentErrorAnswer(error: unknown): ErrorAnswer {
  return error instanceof TunnelRefusal ? tunnelRefusal(error.code) : oauthErrorAnswer(error);
}

function tunnelRefusal(code: TunnelRefusalCode): ErrorAnswer {
  switch (code) {
    case 'browser':
      return errorAnswer(403, 'forbidden', 'only agents can connect here, not web pages');
    case 'no_upgrade':
      return errorAnswer(426, 'invalid_request', 'connect with a WebSocket', {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
      });
    case 'bad_subprotocol':
      return errorAnswer(400, 'invalid_request', 'Sec-WebSocket-Protocol must be latchkey-agent-1');
    case 'full':
      return errorAnswer(
        503,
        'temporarily_unavailable',
        'no capacity for another tunnel; try again later',
        {
          'Retry-After': '5',
        },
      );
  }
}
