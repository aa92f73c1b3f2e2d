/** Error codes of the OAuth endpoints. RFC 6749 §4.1.2.1 and §5.2, RFC 7591 §3.2.2, RFC 8707 §2 */
export type OAuthErrorCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'access_denied'
  | 'invalid_scope'
  | 'invalid_target'
  | 'invalid_redirect_uri'
  | 'invalid_client_metadata'
  /** Too many failed attempts. Not a standard code, because no RFC defines one for this case. */
  | 'slow_down';

interface OAuthErrorOptions extends ErrorOptions {
  readonly challenge?: 'Basic';
  readonly retryAfterSeconds?: number | undefined;
  readonly unreachableHost?: string | undefined;
}

/** A request that an OAuth endpoint refuses. Code and description are public; neither contains a secret. */
export class OAuthError extends Error {
  override readonly name = 'OAuthError';
  readonly code: OAuthErrorCode;
  /** The authentication scheme to name in `WWW-Authenticate`, if the client used one. */
  readonly challenge: 'Basic' | undefined;
  /** When to retry, if that helps. */
  readonly retryAfterSeconds: number | undefined;
  /** The host that this server could not reach, which is no fault of the client. */
  readonly unreachableHost: string | undefined;

  constructor(code: OAuthErrorCode, description: string, options: OAuthErrorOptions = {}) {
    super(description, options);
    this.code = code;
    this.challenge = options.challenge;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.unreachableHost = options.unreachableHost;
  }
}
