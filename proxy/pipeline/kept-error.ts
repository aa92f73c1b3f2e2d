import type { EpochSeconds } from '#clock/clock';

/**
 * `offline`: the server has not been reached since `sinceAt`, and is tried again by itself. `stalled`:
 * it took the request and says nothing. `signed_out`: a person has to sign in. `cause` is what the last
 * attempt met.
 */
export class KeptError extends Error {
  override readonly name = 'KeptError';
  readonly code: 'offline' | 'stalled' | 'signed_out';
  readonly sinceAt: EpochSeconds;

  constructor(
    code: KeptError['code'],
    message: string,
    { sinceAt, ...options }: ErrorOptions & { sinceAt: EpochSeconds },
  ) {
    super(message, options);
    this.code = code;
    this.sinceAt = sinceAt;
  }
}
