/** What went wrong on the way to somebody else's server. `cause` is the network's own. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly code: 'forbidden' | 'unreachable' | 'timeout' | 'redirected' | 'refused' | 'too_large';

  constructor(code: OutboundError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
