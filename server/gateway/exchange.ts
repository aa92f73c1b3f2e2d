import type { IncomingHttpHeaders } from 'node:http';

/** An HTTP request to an MCP endpoint, as the gateway sees it. */
export interface GatewayRequest {
  /** The `X-Request-Id` of its answer, and of what the log says about it. */
  readonly id: string;
  readonly method: string;
  readonly organization: string;
  readonly server: string;
  /** Where it comes from. */
  readonly address?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as they arrived, so that a repeated header is seen. */
  readonly rawHeaders: readonly string[];
  /**
   * The id of a person who is signed in here and asks for themselves. Only our own pages say so, never a
   * header: such a request carries no credential.
   */
  readonly person?: string;
  /**
   * The whole body, read once.
   *
   * @throws {GatewayRefusal} `too_large`
   */
  readonly readBody: () => Promise<Buffer>;
  /** Aborted when the caller went away before the answer was complete. */
  readonly gone: AbortSignal;
}

/** What to send back. A body that is an iterable is sent as it comes. */
export interface GatewayAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>;
}
