/**
 * No response came. `cause` is the platform's own error.
 *
 * `unreachable`: no connection, or one that ended early. `proxy`: the proxy in between does not let us
 * through. `certificate`: TLS does not trust one of the two sides. `settings`: a file of ours for TLS
 * is of no use. `network`: it leads further inside than it may. `aborted`: nobody wants it any more.
 */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: 'unreachable' | 'proxy' | 'certificate' | 'settings' | 'network' | 'aborted';
  /** What to do about it, where that is known. */
  readonly remedy: string | undefined;
  /** Whether some of the request may have reached the server. */
  readonly sent: boolean;

  constructor(
    code: HttpError['code'],
    message: string,
    {
      remedy,
      sent = false,
      ...options
    }: ErrorOptions & { remedy?: string | undefined; sent?: boolean } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
    this.sent = sent;
  }
}

/** The code that the platform gave an error: `ECONNREFUSED`, `CERT_HAS_EXPIRED`. */
export function platformCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
