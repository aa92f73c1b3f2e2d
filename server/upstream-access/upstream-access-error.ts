/**
 * Why there is no token for an upstream. `message` holds no secret and nothing of an answer's body, so that it may be
 * shown to whoever set this up; there is no `cause`, as those hold answers.
 */
export class UpstreamAccessError extends Error {
  override readonly name = 'UpstreamAccessError';
  readonly code:
    /** The person has not connected an account, or the connection does not count any more. */
    | 'not_connected'
    /** The authorization server takes a code or a refresh token no longer. */
    | 'ended'
    /** The authorization server says no to us. */
    | 'refused'
    /** The person said no there. */
    | 'denied'
    /** It cannot be asked now. */
    | 'unreachable'
    /** What it says of itself cannot be used. */
    | 'unusable'
    /** It is in a network that was not named. */
    | 'forbidden';

  constructor(code: UpstreamAccessError['code'], message: string) {
    super(message);
    this.code = code;
  }
}
