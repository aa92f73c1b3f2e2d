import { createServer, request, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { listen } from './loopback.ts';

export interface ConnectProxy extends AsyncDisposable {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  /** The requests so far, in order: `CONNECT host:443`, `POST http://…`. */
  readonly asked: string[];
  /** The status that answers every request, instead of forwarding it. */
  refuse: number | undefined;
}

/**
 * A company's proxy. It demands Basic credentials where `credentials` (`user:password`) are given, and
 * connects every `CONNECT` to 127.0.0.1, so that a test may ask for hosts that do not exist.
 */
export async function connectProxy(credentials?: string): Promise<ConnectProxy> {
  const asked: string[] = [];
  const open = new Set<Socket>();
  const wanted = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
  const refusal = (given: string | undefined) =>
    proxy.refuse ?? (wanted !== undefined && given !== wanted ? 407 : undefined);
  const head = { 'proxy-authenticate': 'Basic realm="company"' };

  const server = createServer((incoming, response) => {
    asked.push(`${incoming.method} ${incoming.url}`);
    const status = refusal(incoming.headers['proxy-authorization']);
    if (status !== undefined) return void response.writeHead(status, head).end();
    const { 'proxy-authorization': _, ...headers } = incoming.headers;
    forward(new URL(incoming.url ?? ''), incoming.method, headers, response, incoming);
  });
  server.on('connect', (incoming, socket: Socket) => {
    asked.push(`CONNECT ${incoming.url}`);
    open.add(socket.on('error', () => undefined));
    const status = refusal(incoming.headers['proxy-authorization']);
    if (status !== undefined)
      return void socket.end(
        `HTTP/1.1 ${status} No\r\nproxy-authenticate: ${head['proxy-authenticate']}\r\ncontent-length: 0\r\n\r\n`,
      );
    const port = Number(/:(\d+)$/.exec(incoming.url ?? '')?.[1]);
    const onward = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
    open.add(onward.on('error', () => socket.destroy()));
  });
  const host = `127.0.0.1:${await listen(server)}`;
  const proxy: ConnectProxy = {
    host,
    asked,
    refuse: undefined,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

function forward(
  url: URL,
  method: string | undefined,
  headers: Record<string, string | string[] | undefined>,
  response: ServerResponse,
  body: NodeJS.ReadableStream,
): void {
  const onward = request(url, { ...(method && { method }), headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.writeHead(502).end());
  body.pipe(onward);
}
