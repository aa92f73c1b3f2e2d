/** Error codes that our endpoints answer with. RFC 6749 §4.1.2.1 and §5.2, RFC 7591 §3.2.2, RFC 8707 §2 */
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
  /** Too many failed attempts: our word, since no RFC has one here. */
  | 'slow_down';

interface OAuthRefusalOptions extends ErrorOptions {
  readonly challenge?: 'Basic';
  readonly retryAfterSeconds?: number;
}

/** A request that an OAuth endpoint turns down. Code and description go out; neither names a secret. */
export class OAuthRefusal extends Error {
  override readonly name = 'OAuthRefusal';
  readonly code: OAuthErrorCode;
  /** The authentication scheme to name in `WWW-Authenticate`, when the client used one. */
  readonly challenge: 'Basic' | undefined;
  /** When to come again, if that helps. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: OAuthErrorCode, description: string, options: OAuthRefusalOptions = {}) {
    super(description, options);
    this.code = code;
    this.challenge = options.challenge;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}
