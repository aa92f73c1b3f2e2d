import type { Upstream } from '#gateway/upstream';

/** An MCP server in this process, asked without a socket. */
export interface InProcessServer {
  fetch(request: Request): Promise<Response>;
}

/** The demo server as an upstream. */
export function demoUpstream(server: InProcessServer): Upstream {
  return {
    async send({ method, headers, body, signal }) {
      const request = new Request('http://demo.invalid/mcp', {
        method,
        headers,
        signal,
        ...(body && { body: new Uint8Array(body) }),
      });
      const response = await server.fetch(request);
      return {
        status: response.status,
        mediaType: response.headers.get('content-type')?.split(';')[0]?.toLowerCase() ?? '',
        sessionId: response.headers.get('mcp-session-id') ?? undefined,
        retryAfterSeconds: undefined,
        body: response.body ?? noBytes(),
      };
    },
  };
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}
