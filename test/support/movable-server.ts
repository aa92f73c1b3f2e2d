import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** A server that can stop and start again at the same address. */
export interface MovableServer extends AsyncDisposable {
  readonly origin: string;
  /** Refuses connections from now on; open ones are cut. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

export async function movableServer(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<MovableServer> {
  let server: Server | undefined;
  let port = 0;

  async function start(): Promise<void> {
    const next = createServer((request, response) => {
      Promise.resolve(handle(request, response)).catch(() => response.destroy());
    });
    await new Promise<void>((resolve, reject) => {
      next.once('error', reject);
      next.listen(port, '127.0.0.1', resolve);
    });
    const address = next.address();
    assert(address && typeof address === 'object');
    ({ port } = address);
    server = next;
  }

  async function stop(): Promise<void> {
    const before = server;
    server = undefined;
    before?.closeAllConnections();
    await new Promise<void>((resolve) => (before ? before.close(() => resolve()) : resolve()));
  }

  await start();
  return { origin: `http://127.0.0.1:${port}`, start, stop, [Symbol.asyncDispose]: stop };
}
