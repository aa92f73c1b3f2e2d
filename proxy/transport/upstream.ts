import type { Message } from 'latchkey-mcp/raw-message';

/** Receives a message. Resolves when the next one may follow. */
export type Deliver = (message: Message) => Promise<void>;

/** A connection to an MCP server. It carries JSON-RPC bytes and parses only what it needs. */
export interface Upstream {
  /**
   * Sends a message and delivers the messages that the server sends in response. Resolves after the last of them. For a
   * request, either an answer has been delivered then, or this rejects.
   *
   * @throws {UpstreamError} or the error of the credential
   */
  send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** Delivers what the server sends on its own. Resolves when no more can follow. */
  listen(deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** Ends the session, if there is one. Never rejects. */
  close(signal: AbortSignal): Promise<void>;
}

type UpstreamErrorDetails = {
  /** HTTP status, when there was an answer. */
  status?: number;
  /** The time until a retry, as the server gives it. */
  retryAfterSeconds?: number;
  /** The number of attempts, if there was more than one. */
  attempts?: number;
  /** Whether the request may have been executed and is not safe to repeat. */
  outcomeUnknown?: boolean;
};

/**
 * `unreachable`: no connection. `unauthorized`: no credential, or the renewed one was refused too. `suspended`: the
 * credential is valid, but an administrator's setting refuses it for now. `forbidden`: the credential lacks a right.
 * `redirected`: the server has another URL. `status`: any other refusal. `not_json_rpc`: the answer is something else.
 * `refused`: it is a JSON-RPC error. `account`: it asks the person to connect an account. `no_answer`: the response ended
 * early. `too_large`: the answer is over the limit. `aborted`: cancelled by us.
 */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code:
    | 'unreachable'
    | 'unauthorized'
    | 'suspended'
    | 'forbidden'
    | 'redirected'
    | 'status'
    | 'not_json_rpc'
    | 'refused'
    | 'account'
    | 'no_answer'
    | 'too_large'
    | 'aborted';
  readonly details: UpstreamErrorDetails;
  /** The remedy, if it is more specific than the one for `code`. */
  readonly remedy: string | undefined;

  constructor(
    code: UpstreamError['code'],
    message: string,
    {
      status,
      retryAfterSeconds,
      attempts,
      outcomeUnknown,
      remedy,
      ...options
    }: ErrorOptions & UpstreamErrorDetails & { remedy?: string | undefined } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
    this.details = {
      ...(status !== undefined && { status }),
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
      ...(attempts !== undefined && { attempts }),
      ...(outcomeUnknown !== undefined && { outcomeUnknown }),
    };
  }

  get status(): number | undefined {
    return this.details.status;
  }

  /** A copy of this error with more details. */
  with(more: UpstreamErrorDetails): UpstreamError {
    const { code, message, cause, details, remedy } = this;
    return new UpstreamError(code, message, { ...details, ...more, cause, remedy });
  }
}

/** Waits for `work` until `signal` aborts; the work itself continues for others that wait for it. @throws {UpstreamError} `aborted` */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(new UpstreamError('aborted', 'aborted'));
  work.catch(() => undefined);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
