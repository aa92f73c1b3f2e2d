import http, { type Agent, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';

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

const connectTimeoutMs = 20_000;

/** Shorter than what load balancers allow, so that a request rarely meets a dying connection. */
const idleTimeoutMs = 30_000;

/**
 * Keep-alive connections over `node:http`, which starts several times faster than `fetch`; TLS is
 * loaded with the first https URL.
 */
export function httpClient(): HttpClient {
  const agents = new Map<string, Agent>();

  async function platformFor(protocol: string) {
    const platform = protocol === 'https:' ? (await import('node:https')).default : http;
    const agent =
      agents.get(protocol) ?? new platform.Agent({ keepAlive: true, timeout: idleTimeoutMs });
    agents.set(protocol, agent);
    return { platform, agent };
  }

  async function request({ url, method, headers, body, signal }: HttpRequest) {
    const { platform, agent } = await platformFor(url.protocol);
    const length = body ? { 'content-length': body.length } : {};
    return new Promise<IncomingMessage>((resolve, reject) => {
      if (signal?.aborted) return reject(new HttpError('aborted', 'aborted'));
      const outgoing = platform.request(
        url,
        { method, agent, headers: { ...headers, ...length } },
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
