export type OAuthErrorDetails = {
  /** The URL that was requested. */
  endpoint: string;
  /** HTTP status of the response. */
  status?: number;
  /** `error` and `error_description` of RFC 6749 §5.2, without secrets. */
  error?: string;
  errorDescription?: string;
  /** Advice on what to do, if there is any that is more specific than the advice for the code. */
  remedy?: string;
};

/**
 * The error of OAuth requests.
 *
 * `unreachable`: no usable response, so a retry may help. `refused`: the server refused the request. `suspended`: the sign-in is
 * valid, but an administrator's setting blocks it for now. `metadata`: the server's metadata or response is missing or invalid, or
 * lacks a required feature. `issuer`: the authorization server is not the expected one. `client`: the client's id, secret, key or
 * assertion is missing or unusable. `redirect`: the redirect does not answer our request. `declined`: the person refused consent.
 * `no_access`: a Latchkey server has nothing that the person may use. `denied`: the server refused the sign-in for another reason.
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
    | 'declined'
    | 'no_access'
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
 * A sign-in ended without a redirect. `port`: another program uses the port. `timeout`: the person did not finish in the browser.
 * `aborted`: cancelled on this computer. `pasted`: the input ended before the person pasted the redirect. `other_browser`: a second
 * browser, which may be another user's, took part.
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
 * `rejected`: the server issued a rejected token again. `busy`: another process holds the lock. `no_lock`: the lock cannot be
 * created. `signed_out`: a person has to sign in. `signing_in`: a sign-in is open in the browser. `narrow`: a person is signed
 * in, and has to sign in again for more scopes. `not_chosen`: the person signed in for several servers, but not for this one.
 * `withdrawn`: the server said that the person has no access any more.
 */
export class TokenError extends Error {
  override readonly name = 'TokenError';
  readonly code:
    | 'rejected'
    | 'busy'
    | 'no_lock'
    | 'signed_out'
    | 'signing_in'
    | 'narrow'
    | 'not_chosen'
    | 'withdrawn';

  constructor(code: TokenError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
