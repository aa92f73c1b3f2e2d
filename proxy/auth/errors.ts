export type OAuthErrorDetails = {
  /** Whom we asked. */
  endpoint: string;
  /** HTTP status of its answer. */
  status?: number;
  /** `error` and `error_description` of RFC 6749 §5.2, without secrets. */
  error?: string;
  errorDescription?: string;
  /** What to do about it, where that is known better than from the code. */
  remedy?: string;
};

/**
 * The error of OAuth requests.
 *
 * `unreachable`: no answer, or a fault of the server, so later may help. `refused`: the
 * authorization server said no to this client. `suspended`: the sign-in is valid, but an administrator's setting refuses
 * it for now. `metadata`: a discovery document is missing what we need or contradicts itself. `issuer`: the authorization server is not the one it should be.
 * `client`: we have no client id that it takes, or no key for it. `redirect`: a browser brought
 * something that is not the answer to our question. `denied`: the person, or the server for them,
 * said no.
 */
export class OAuthError extends Error {
  override readonly name = 'OAuthError';
  readonly code:
    | 'unreachable'
    | 'refused'
    | 'suspended'
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

/**
 * The redirect did not arrive. `port`: the port is taken. `timeout`: the person did not finish in
 * the browser. `aborted`: we no longer wanted it. `pasted`: what was pasted is not the redirect.
 * `other_browser`: a second browser took part, which may be another user's.
 */
export class LoopbackError extends Error {
  override readonly name = 'LoopbackError';
  readonly code: 'port' | 'timeout' | 'aborted' | 'pasted' | 'other_browser';

  constructor(code: LoopbackError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * `rejected`: the successor is the rejected token again. `busy`: another process holds the lock.
 * `no_lock`: there can be no lock. `signed_out`: a person has to sign in. `signing_in`: one is about
 * to, in the browser. `narrow`: a person is signed in, and has to sign in again for more scopes.
 */
export class TokenError extends Error {
  override readonly name = 'TokenError';
  readonly code: 'rejected' | 'busy' | 'no_lock' | 'signed_out' | 'signing_in' | 'narrow';

  constructor(code: TokenError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
