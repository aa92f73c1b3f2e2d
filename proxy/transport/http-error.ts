/**
 * There was no response. `cause` is the platform's error.
 *
 * `unreachable`: no connection, or it ended early. `proxy`: the proxy refuses or cannot be reached. `certificate`: one side does
 * not trust the other's certificate. `settings`: one of our files for TLS is unusable. `network`: the URL is further inside than
 * allowed. `aborted`: cancelled by the caller.
 */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: 'unreachable' | 'proxy' | 'certificate' | 'settings' | 'network' | 'aborted';
  /** What to do about it, if that is known. */
  readonly remedy: string | undefined;
  /** Whether part of the request may have reached the server. */
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

/** The platform's code of an error: `ECONNREFUSED`, `CERT_HAS_EXPIRED`. */
export function platformCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
