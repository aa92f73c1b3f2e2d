import { createServer, request } from 'node:http';

import { listen } from '#support/loopback';

/** An address of its own that leads to one endpoint of a gateway. */
export interface KeyFront extends AsyncDisposable {
  readonly url: string;
}

/** A front that adds the key, because the suite sends no credential. It replaces its own Host and Origin by the gateway's. */
export async function keyFront(endpoint: string, key: string): Promise<KeyFront> {
  const { pathname: path, port } = new URL(endpoint);
  const server = createServer((incoming, response) => {
    const { method, headers } = incoming;
    const own = `:${ownPort}`;
    const host = headers.host?.endsWith(own) ? `127.0.0.1:${port}` : headers.host;
    const origin = headers.origin?.endsWith(own) ? `http://127.0.0.1:${port}` : headers.origin;
    const sent = { ...headers, host, 'x-api-key': key, ...(origin !== undefined && { origin }) };
    const outgoing = request({ port, method, path, headers: sent }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  const ownPort = await listen(server);
  return {
    url: `http://127.0.0.1:${ownPort}/mcp`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
