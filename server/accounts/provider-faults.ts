import * as client from 'openid-client';

import { outboundErrorIn } from '#outbound/checked-addresses';

/** What is wrong with the provider, with what was registered there, or with this server's settings. */
export type ProviderFaultCode =
  | 'unreachable'
  /** The server answers, but not as an OpenID provider. */
  | 'not-openid'
  /** The configuration names another issuer. */
  | 'other-issuer'
  /** The provider refused the sign-in on its own pages. */
  | 'sign-in-refused'
  /** The provider does not accept the client id and secret. */
  | 'client-refused'
  /** The provider refused to exchange the code. */
  | 'code-refused'
  /** The ID token is not valid yet, or has expired: the clocks differ. */
  | 'clock'
  /** The ID token has a wrong signature or a wrong claim. */
  | 'token-invalid';

/** Why the provider cannot be used; `detail` may quote the provider, and contains no secret. */
export interface ProviderFault {
  readonly code: ProviderFaultCode;
  readonly detail: string;
}

/** Classifies an error of `openid-client` or of a request to the provider. */
export function providerFault(error: unknown): ProviderFault {
  if (error instanceof client.AuthorizationResponseError) {
    return { code: 'sign-in-refused', detail: quoted(error) };
  }
  if (error instanceof client.ResponseBodyError) {
    const isClient = error.error === 'invalid_client' || error.error === 'unauthorized_client';
    return { code: isClient ? 'client-refused' : 'code-refused', detail: quoted(error) };
  }
  const outbound = outboundErrorIn(error);
  if (outbound) return { code: 'unreachable', detail: outbound.message };
  if (error instanceof SyntaxError) return { code: 'not-openid', detail: 'not JSON' };
  const code = textAt(error, 'code');
  const cause = error instanceof Error ? error.cause : undefined;
  switch (code) {
    case 'OAUTH_TIMEOUT':
      return { code: 'unreachable', detail: 'no answer within ten seconds' };
    case 'OAUTH_RESPONSE_IS_NOT_CONFORM': {
      const status = cause instanceof Response ? ` ${cause.status}` : '';
      return { code: 'not-openid', detail: `HTTP${status}` };
    }
    case 'OAUTH_RESPONSE_IS_NOT_JSON':
    case 'OAUTH_PARSE_ERROR':
      return { code: 'not-openid', detail: 'not JSON' };
    case 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED':
      return { code: 'other-issuer', detail: textAt(error, 'message') };
    case 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED':
      return { code: 'clock', detail: textAt(cause, 'message') };
    default:
      return isNetworkFault(error)
        ? { code: 'unreachable', detail: textAt(cause, 'code') || textAt(error, 'message') }
        : { code: 'token-invalid', detail: textAt(cause, 'message') || textAt(error, 'message') };
  }
}

/** Errors that are about something other than the token: the client, the request, the provider, or the person, who has to act. */
const otherErrors = new Set([
  // RFC 6749 §5.2, §4.1.2.1, RFC 8628 §3.5, RFC 8707 §2, RFC 9449 §8
  'invalid_client',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'server_error',
  'temporarily_unavailable',
  'slow_down',
  'invalid_target',
  'use_dpop_nonce',
  // OpenID Connect Core §3.1.2.6, RFC 9470 §3
  'interaction_required',
  'login_required',
  'consent_required',
  'account_selection_required',
  'insufficient_user_authentication',
]);

/**
 * Whether a provider refused a refresh token without the error that RFC 6749 §5.2 has for it. Glewlwyd answers 400 without a body, others
 * `invalid_request` or a code of their own. Servers that do not work, and proxies in front of them, answer with other statuses.
 */
export function isUnclearRefusal(error: unknown): boolean {
  if (error instanceof client.ResponseBodyError) {
    return (error.status === 400 || error.status === 403) && !otherErrors.has(error.error);
  }
  const cause = error instanceof client.ClientError ? error.cause : undefined;
  return cause instanceof Response && cause.status === 400;
}

/** `fetch` rejects with a TypeError, and its timeout with a DOMException. Fetch §5.6 */
function isNetworkFault(error: unknown): boolean {
  return error instanceof TypeError || error instanceof DOMException;
}

function quoted({
  error,
  error_description: text,
}: client.ResponseBodyError | client.AuthorizationResponseError) {
  return text === undefined ? error : `${error}: ${text}`;
}

function textAt(value: unknown, member: 'code' | 'message'): string {
  const text: unknown =
    typeof value === 'object' && value !== null ? Reflect.get(value, member) : '';
  return typeof text === 'string' ? text : '';
}
