/**
 * No tunnel. `refused`: the key is not accepted. `forbidden`: the server lets nobody in this way.
 * `protocol`: what answers is no server of ours, or of another version. `busy`: not now.
 * `unreadable`: there is no key to show. `unreachable`: no connection. Messages hold no secret.
 */
export class TunnelError extends Error {
  override readonly name = 'TunnelError';
  readonly code:
    | 'refused'
    | 'forbidden'
    | 'protocol'
    | 'busy'
    | 'unreadable'
    | 'unreachable'
    | 'aborted';
  readonly remedy: string;
  readonly retryAfterSeconds: number;

  constructor(
    code: TunnelError['code'],
    message: string,
    {
      remedy = '',
      retryAfterSeconds = 0,
      ...options
    }: ErrorOptions & { remedy?: string; retryAfterSeconds?: number } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
