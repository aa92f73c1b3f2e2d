export type OAuthErrorDetails = {
  /** Whom we asked. */
  endpoint: string;
  /** HTTP status of its answer. */
  status?: number;
  /** `error` and `error_description` of RFC 6749 §5.2, without secrets. */
  error?: string;
  errorDescription?: string;
};

/**
 * The only error of this room.
 *
 * `unreachable`: no answer, or a fault of the server, so later may help. `refused`: the
 * authorization server said no to this client. `metadata`: a discovery document is missing what we
 * need or contradicts itself. `issuer`: the authorization server is not the one it should be.
 * `client`: we have no client id that it takes, or no key for it. `redirect`: a browser brought
 * something that is not the answer to our question. `denied`: the person, or the server for them,
 * said no.
 */
export class OAuthError extends Error {
  override readonly name = 'OAuthError';
  readonly code:
    | 'unreachable'
    | 'refused'
    | 'metadata'
    | 'issuer'
    | 'client'
    | 'redirect'
    | 'denied';
  readonly details: OAuthErrorDetails;

  constructor(
    code: OAuthError['code'],
    message: string,
    details: OAuthErrorDetails,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}
