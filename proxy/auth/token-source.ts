/**
 * A token that the server answered 401 to, and the `WWW-Authenticate` header it said so with; no token
 * when it was asked without one.
 */
export type RejectedToken = { accessToken?: string; challenge?: string };

/** A token that the server answered 403 to for lack of a scope, and the header that names it. */
export type NarrowToken = { accessToken: string; challenge: string };

/** Access tokens for one connection, whoever asks and however often. */
export interface TokenSource {
  /**
   * A token that is good for a while yet. `rejected` is never handed out again; a successor is
   * fetched, once for all who ask at the same time.
   *
   * @throws {TokenError} or what the grant or the secret store rejects with
   */
  accessToken(rejected?: RejectedToken): Promise<string>;

  /**
   * A token with the scopes that `narrow` lacks; `undefined` when they were asked for before, in
   * vain. `narrow` itself stays good for everything else.
   *
   * @throws the same
   */
  widened(narrow: NarrowToken): Promise<string | undefined>;
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
