import { createServer, type ServerOptions } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { listen } from './loopback.ts';
import { legacyAnswer } from './upstreams/recording-upstream.ts';

export interface TlsServer extends AsyncDisposable {
  readonly port: number;
  readonly requests: string[];
}

/** An MCP server of the legacy era, without sessions, behind TLS on a free port of 127.0.0.1. */
export async function tlsServer(
  options: ServerOptions,
  handle: (request: IncomingMessage, response: ServerResponse, body: Buffer) => void = (
    { method = '', headers },
    response,
    body,
  ) => legacyAnswer({ method, headers, body }, response),
): Promise<TlsServer> {
  const requests: string[] = [];
  const server = createServer(options, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      requests.push(`${request.method} ${request.url}`);
      handle(request, response, Buffer.concat(chunks));
    });
  });
  server.on('tlsClientError', () => undefined);
  const port = await listen(server);
  return {
    port,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
