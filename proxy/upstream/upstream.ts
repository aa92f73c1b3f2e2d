import type { Message } from '#jsonrpc/message';

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
  /** HTTP status, when there was an answer. */
  readonly status: number | undefined;

  constructor(
    code: UpstreamError['code'],
    message: string,
    { status, ...options }: ErrorOptions & { status?: number } = {},
  ) {
    super(message, options);
    this.code = code;
    this.status = status;
  }
}
