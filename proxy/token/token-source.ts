/** A token that the server answered 401 to, and the `WWW-Authenticate` header it said so with. */
export type RejectedToken = { accessToken: string; challenge?: string };

/** Access tokens for one connection, whoever asks and however often. */
export interface TokenSource {
  /**
   * A token that is good for a while yet. `rejected` is never handed out again; a successor is
   * fetched, once for all who ask at the same time.
   *
   * @throws {TokenError} or what the grant or the secret store rejects with
   */
  accessToken(rejected?: RejectedToken): Promise<string>;
}

/**
 * `rejected`: the successor is the rejected token again. `busy`: another process holds the lock.
 * `no_lock`: there can be no lock.
 */
export class TokenError extends Error {
  override readonly name = 'TokenError';
  readonly code: 'rejected' | 'busy' | 'no_lock';

  constructor(code: TokenError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
