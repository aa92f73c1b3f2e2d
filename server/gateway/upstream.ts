/** A request to an upstream MCP server over Streamable HTTP. Never carries a credential of a caller. */
export interface UpstreamRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Ends the request and its answer, at any time. */
  readonly signal: AbortSignal;
}

/** What an upstream answered, the body still to come. */
export interface UpstreamAnswer {
  readonly status: number;
  /** The media type alone, lower case; empty when there is none. */
  readonly mediaType: string;
  readonly sessionId: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Whole when it was short, else as it comes. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
}

/** A way to one MCP server. Carries raw JSON-RPC bytes and parses none of them. */
export interface Upstream {
  /** @throws {UpstreamError} when there is no answer to be had. */
  send(request: UpstreamRequest): Promise<UpstreamAnswer>;
}

export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code: 'unreachable' | 'timeout' | 'broken' | 'encoded' | 'offline';

  constructor(code: UpstreamError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
