import { ServerResponse, type IncomingMessage, type Server } from 'node:http';
import type { Socket } from 'node:net';

/** What a request that asks for another protocol hands over with its connection. */
export interface Upgrade {
  readonly socket: Socket;
  /** What came behind the request already. */
  readonly head: Buffer;
}

/** Whether a request asks for a WebSocket. RFC 6455 §4.1 */
export function asksForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * Sends requests that ask for another protocol through the same routes and checks as all others. A route takes
 * such a connection over with `take`; whatever else is answered ends it.
 */
export class Upgrades {
  readonly #waiting = new WeakMap<IncomingMessage, Upgrade & { response: ServerResponse }>();

  /** @param route answers a request */
  listen(
    server: Server,
    route: (request: IncomingMessage, response: ServerResponse) => void,
  ): void {
    server.on('upgrade', (request, _socket, head) => {
      const { socket } = request;
      const response = new ServerResponse(request);
      socket.on('error', () => socket.destroy());
      response.shouldKeepAlive = false;
      response.assignSocket(socket);
      response.on('finish', () => socket.end());
      this.#waiting.set(request, { socket, head, response });
      route(request, response);
    });
  }

  /** The connection below a request, from now on the caller's; `undefined` when it asked for none. */
  take(request: IncomingMessage): Upgrade | undefined {
    const found = this.#waiting.get(request);
    if (!found) return undefined;
    this.#waiting.delete(request);
    const { socket, head, response } = found;
    response.detachSocket(socket);
    return { socket, head };
  }

  /** Whether a connection waits to be taken. */
  has(request: IncomingMessage): boolean {
    return this.#waiting.has(request);
  }
}
