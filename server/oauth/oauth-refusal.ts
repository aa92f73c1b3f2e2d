/** Error codes that our endpoints answer with. RFC 6749 §5.2, RFC 8707 §2 */
export type OAuthErrorCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'invalid_scope'
  | 'invalid_target';

/** A request that an OAuth endpoint turns down. Code and description go out; neither names a secret. */
export class OAuthRefusal extends Error {
  override readonly name = 'OAuthRefusal';
  readonly code: OAuthErrorCode;
  /** The authentication scheme to name in `WWW-Authenticate`, when the client used one. */
  readonly challenge: 'Basic' | undefined;

  constructor(code: OAuthErrorCode, description: string, options?: { challenge?: 'Basic' }) {
    super(description);
    this.code = code;
    this.challenge = options?.challenge;
  }
}
