/** A request to a local MCP server, with the methods and headers of MCP's Streamable HTTP. */
export type LocalRequest = {
  method: 'POST' | 'GET' | 'DELETE';
  /** In lower case. Never a credential. */
  headers: Readonly<Record<string, string>>;
  /** Of a POST: one JSON-RPC message. */
  body?: Buffer;
  /** Stands for whoever asks. Sessions and children are never shared between two of them. */
  caller: string;
  /** Ends the request and its answer: the server is told to cancel. */
  signal: AbortSignal;
};

export type LocalAnswer = {
  status: number;
  /** `content-type`, `mcp-session-id` and `retry-after`, where there are any. */
  headers: Readonly<Record<string, string>>;
  /** Whole where it is short and there; else as it comes, taken no faster than it is read. */
  body: Buffer | AsyncIterable<Buffer>;
};

/** A body as it comes. An empty one has no chunk. */
export async function* chunksOf(body: LocalAnswer['body']): AsyncGenerator<Buffer> {
  if (!(body instanceof Uint8Array)) yield* body;
  else if (body.length > 0) yield body;
}

/** One MCP server on this machine or in its network, whatever it speaks, as Streamable HTTP. */
export interface LocalServer {
  /** @throws {LocalServerError} when there is no answer to be had; its body may throw one, too */
  send(request: LocalRequest): Promise<LocalAnswer>;

  /** Nobody comes back for that caller: ends their sessions and children. Others keep theirs. */
  leave(caller: string): Promise<void>;

  /** Forgets all sessions and ends their children; the next request begins anew. */
  reset(): Promise<void>;

  /** The same for good. No child is left once resolved. */
  close(): Promise<void>;
}

/**
 * `unreachable`: no connection, or a command that does not start. `broken`: it ended inside its answer.
 * `too_large`: a message over the limit. `busy`: as many sessions as there may be. `aborted`: the asker
 * has gone. Messages hold no secret.
 */
export class LocalServerError extends Error {
  override readonly name = 'LocalServerError';
  readonly code: 'unreachable' | 'broken' | 'too_large' | 'busy' | 'aborted';

  constructor(code: LocalServerError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
