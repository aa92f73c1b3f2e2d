import type http from 'node:http';
import type { Agent, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { createRequire } from 'node:module';

export type HttpRequest = {
  url: URL;
  method: 'GET' | 'POST' | 'DELETE';
  headers: OutgoingHttpHeaders;
  body?: Buffer;
  signal?: AbortSignal;
};

/**
 * Sends a request and resolves with the response's head; its body streams. Redirects are not
 * followed, as a credential meant for one host must not reach another.
 *
 * @throws {HttpError}
 */
export interface HttpClient {
  request(request: HttpRequest): Promise<IncomingMessage>;

  /** Ends idle and open connections. */
  close(): void;
}

/** No response came. `cause` is the platform's own error. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: 'unreachable' | 'aborted';

  constructor(code: HttpError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

type Platform = Pick<typeof http, 'Agent' | 'request'>;

const connectTimeoutMs = 20_000;

/** Shorter than what load balancers allow, so that a request rarely meets a dying connection. */
const idleTimeoutMs = 30_000;

/**
 * Keep-alive connections over `node:http`, or `node:https` once there is such a URL. They are
 * required, not imported: the import of `node:http` reads all its exports, among them WebSocket,
 * and so loads the whole of undici, which would double the time that this program takes to start.
 */
export function httpClient(): HttpClient {
  const require = createRequire(import.meta.url);
  const agents = new Map<string, Agent>();

  function platformFor(protocol: string) {
    const platform: Platform = require(protocol === 'https:' ? 'node:https' : 'node:http');
    const agent =
      agents.get(protocol) ?? new platform.Agent({ keepAlive: true, timeout: idleTimeoutMs });
    agents.set(protocol, agent);
    return { platform, agent };
  }

  async function request({ url, method, headers, body, signal }: HttpRequest) {
    const { platform, agent } = platformFor(url.protocol);
    const length = body ? { 'content-length': body.length } : {};
    return new Promise<IncomingMessage>((resolve, reject) => {
      if (signal?.aborted) return reject(new HttpError('aborted', 'aborted'));
      const outgoing = platform.request(
        url,
        { method, agent, headers: { 'user-agent': 'latchkey', ...headers, ...length } },
        (response) => {
          // Whoever reads the body sees the same error; without a reader it is not news.
          response.on('error', () => undefined);
          resolve(response);
        },
      );
      const abort = () => outgoing.destroy();
      signal?.addEventListener('abort', abort, { once: true });
      outgoing.once('close', () => signal?.removeEventListener('abort', abort));
      outgoing.once('socket', (socket) => {
        if (!socket.connecting) return;
        const timer = setTimeout(
          () => outgoing.destroy(new Error(`no connection within ${connectTimeoutMs / 1000} s`)),
          connectTimeoutMs,
        );
        socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () =>
          clearTimeout(timer),
        );
        socket.once('close', () => clearTimeout(timer));
      });
      outgoing.once('error', (error) => {
        if (signal?.aborted) return reject(new HttpError('aborted', 'aborted', { cause: error }));
        const reason = error.message || ('code' in error ? String(error.code) : error.name);
        reject(new HttpError('unreachable', `${url.origin}: ${reason}`, { cause: error }));
      });
      outgoing.end(body);
    });
  }

  return { request, close: () => agents.forEach((agent) => agent.destroy()) };
}
