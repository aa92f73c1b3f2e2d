import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** One request as it came, for asserting exact traffic. */
export type SeenRequest = { method: string; path: string; headers: IncomingMessage['headers'] };

export type CountedServer = {
  origin: string;
  seen: SeenRequest[];
  /** `POST /mcp` and the like, in order. */
  lines(): string[];
  [Symbol.asyncDispose](): Promise<void>;
};

/** A server on a free port of 127.0.0.1 that remembers every request. */
export async function countedServer(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<CountedServer> {
  const seen: SeenRequest[] = [];
  const server = createServer((request, response) => {
    const { method = '', url: path = '', headers } = request;
    seen.push({ method, path, headers });
    Promise.resolve(handle(request, response)).catch((error: unknown) => {
      console.error('test server failed', error);
      response.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert(address && typeof address === 'object');
  return {
    origin: `http://127.0.0.1:${address.port}`,
    seen,
    lines: () => seen.map(({ method, path }) => `${method} ${path}`),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
