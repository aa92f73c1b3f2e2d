import { createServer } from 'node:http';

export interface MetricsAddress {
  readonly host: string;
  /** 0 chooses a free port. */
  readonly port: number;
}

/** Serves `/metrics` on an address that nothing else listens on. Requires no credential. */
export async function serveMetrics(
  { host, port }: MetricsAddress,
  text: () => Promise<string>,
  failed: (error: unknown) => void,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer({ requestTimeout: 10_000, maxHeaderSize: 8192 }, (request, reply) => {
    request.resume();
    reply.setHeader('Cache-Control', 'no-store');
    reply.setHeader('X-Content-Type-Options', 'nosniff');
    const [path] = (request.url ?? '').split('?');
    if (path !== '/metrics') return void reply.writeHead(404).end();
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return void reply.writeHead(405, { Allow: 'GET, HEAD' }).end();
    }
    text().then(
      (lines) => {
        reply.setHeader('Content-Type', 'text/plain; version=0.0.4; charset=utf-8');
        reply.end(lines);
      },
      (error: unknown) => {
        failed(error);
        reply.writeHead(500).end();
      },
    );
  });
  await new Promise<void>((resolve, reject) => {
    // Not shared with other processes of this server: each has metrics of its own.
    server.once('error', reject).listen({ port, host, exclusive: true }, resolve);
  });
  server.on('error', failed);
  const address = server.address();
  return {
    port: typeof address === 'object' ? (address?.port ?? port) : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
