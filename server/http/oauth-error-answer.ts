import { OAuthRefusal, type OAuthErrorCode } from '#oauth/oauth-refusal';
import { errorAnswer, type ErrorAnswer } from './error-answer.ts';
import { frameworkStatus, isStoreFault } from './failure.ts';

/**
 * What an OAuth or metadata endpoint says about a failure. This room is one of the two places that speak HTTP
 * statuses; nothing private goes out. RFC 6749 §5.2
 */
export function oauthErrorAnswer(error: unknown): ErrorAnswer {
  if (error instanceof OAuthRefusal) {
    const { code, message, challenge, retryAfterSeconds: after } = error;
    const headers: Record<string, string> = {
      ...(challenge !== undefined && { 'WWW-Authenticate': `${challenge} realm="latchkey"` }),
      ...(after !== undefined && { 'Retry-After': String(after) }),
    };
    return errorAnswer(oauthStatus(code), code, message, headers);
  }
  const status = frameworkStatus(error);
  if (status !== undefined) return errorAnswer(status, 'invalid_request', frameworkWords(status));
  if (isStoreFault(error)) {
    return errorAnswer(
      503,
      'temporarily_unavailable',
      'the database is not available, try again soon',
    );
  }
  return errorAnswer(500, 'server_error', 'this is our fault, see the log of the server');
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

function frameworkWords(status: number): string {
  if (status === 413) return 'the body is too large';
  if (status === 415) return 'the body must be application/x-www-form-urlencoded';
  return 'the request cannot be read';
}
