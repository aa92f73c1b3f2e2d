import type { Message } from 'latchkey-mcp/raw-message';

/** Takes one message on; resolves when there is room for the next. */
export type Deliver = (message: Message) => Promise<void>;

/** A way to an MCP server. It carries raw JSON-RPC bytes and reads only what it needs of them. */
export interface Upstream {
  /**
   * Sends one message and delivers what the server says because of it; resolves once it said all.
   * A request is answered then: an answer was delivered, or this rejects.
   *
   * @throws {UpstreamError} or what the credential rejects with
   */
  send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** Delivers what the server says unasked; resolves when it will say no more. */
  listen(deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** Ends the session, if there is one; never rejects. */
  close(signal: AbortSignal): Promise<void>;
}

type UpstreamErrorDetails = {
  /** HTTP status, when there was an answer. */
  status?: number;
  /** When the server says it can be asked again. */
  retryAfterSeconds?: number;
  /** How often it was tried, when more than once. */
  attempts?: number;
  /** The request may have run, or not, and is not harmless to repeat. */
  outcomeUnknown?: boolean;
};

/**
 * `unreachable`: no connection. `unauthorized`: a credential is missing, or the renewed one was
 * refused too. `forbidden`: it lacks a right. `redirected`: the server is elsewhere. `status`: any
 * other refusal. `not_json_rpc`: something else came. `no_answer`: the answer broke off.
 * `too_large`: it is over the limit. `aborted`: we no longer wanted it.
 */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code:
    | 'unreachable'
    | 'unauthorized'
    | 'forbidden'
    | 'redirected'
    | 'status'
    | 'not_json_rpc'
    | 'no_answer'
    | 'too_large'
    | 'aborted';
  readonly details: UpstreamErrorDetails;

  constructor(
    code: UpstreamError['code'],
    message: string,
    {
      status,
      retryAfterSeconds,
      attempts,
      outcomeUnknown,
      ...options
    }: ErrorOptions & UpstreamErrorDetails = {},
  ) {
    super(message, options);
    this.code = code;
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

  /** The same error, with more known about it. */
  with(more: UpstreamErrorDetails): UpstreamError {
    const { code, message, cause, details } = this;
    return new UpstreamError(code, message, { ...details, ...more, cause });
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
