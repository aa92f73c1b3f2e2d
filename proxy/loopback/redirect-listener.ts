import type http from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { LoopbackError } from './loopback-error.ts';
import { redirectPage, type RedirectPage } from './redirect-page.ts';

export type Redirect = {
  query: URLSearchParams;
  /** Tells the browser how it went; resolves when the page was handed over. */
  answer: (page: RedirectPage) => Promise<void>;
};

/** Waits for a browser to come back from an authorization server. RFC 8252 §7.3 */
export interface RedirectListener {
  readonly redirectUri: string;

  /**
   * The first redirect that `isOurs`; others, and those that came before this was asked, get a page
   * that says so and change nothing.
   *
   * @throws {LoopbackError} `timeout`, `aborted`
   */
  redirect(
    isOurs: (query: URLSearchParams) => boolean,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<Redirect>;

  /** Frees the port at once. */
  close(): Promise<void>;
}

export type RedirectListenerOptions = {
  /** Tried again while it is taken. Without it, any free port. */
  port?: number | undefined;
  attempts?: number;
  host?: string;
  path?: string;
};

const portRetryMs = 300;
const handoverMs = 2_000;

const stray: RedirectPage = {
  status: 400,
  title: 'This page belongs to no sign-in',
  text: 'Nothing was changed. Close it, and begin again from the assistant or with latchkey login.',
};

/**
 * Listens on a port of 127.0.0.1 for one redirect to one path.
 *
 * @throws {LoopbackError} `port`
 */
export async function redirectListener(
  { port, attempts = 10, host = '127.0.0.1', path = '/callback' }: RedirectListenerOptions = {},
  sleep: (ms: number) => Promise<void>,
): Promise<RedirectListener> {
  const require = createRequire(import.meta.url);
  const { createServer }: Pick<typeof http, 'createServer'> = require('node:http');
  let waiting: { isOurs: (query: URLSearchParams) => boolean; found(redirect: Redirect): void };
  let open = false;

  const server = createServer({ headersTimeout: 5_000, requestTimeout: 5_000 }, take);
  server.maxConnections = 32;
  const bound = await listen(server, { port, attempts }, sleep);
  const authority = `${host}:${bound}`;

  function take(request: IncomingMessage, response: ServerResponse): void {
    const url = URL.parse(request.url ?? '', `http://${authority}`);
    // Another name that resolves to this machine is somebody's page, not the browser we sent.
    if (request.headers.host !== authority || url?.pathname !== path)
      return void response.writeHead(404, { connection: 'close' }).end();
    if (request.method !== 'GET')
      return void response.writeHead(405, { allow: 'GET', connection: 'close' }).end();
    if (!open || !waiting.isOurs(url.searchParams)) return void show(response, stray);
    open = false;
    waiting.found({ query: url.searchParams, answer: (page) => show(response, page) });
  }

  return {
    redirectUri: `http://${authority}${path}`,
    async redirect(isOurs, { timeoutMs, signal }) {
      const { promise, resolve: found, reject } = Promise.withResolvers<Redirect>();
      waiting = { isOurs, found };
      open = true;
      const minutes = Math.round(timeoutMs / 60_000);
      const timer = setTimeout(
        () => reject(new LoopbackError('timeout', `nobody signed in within ${minutes} minutes`)),
        timeoutMs,
      );
      const abort = () => reject(new LoopbackError('aborted', 'the sign-in was given up'));
      if (signal.aborted) abort();
      signal.addEventListener('abort', abort, { once: true });
      return promise.finally(() => {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        open = false;
      });
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function show(response: ServerResponse, page: RedirectPage): Promise<void> {
  const { headers, body } = redirectPage(page);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, handoverMs);
    response.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    response.writeHead(page.status, headers).end(body);
  });
}

async function listen(
  server: Server,
  { port, attempts }: { port: number | undefined; attempts: number },
  sleep: (ms: number) => Promise<void>,
): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const error = await new Promise<Error | undefined>((resolve) => {
      const settle = (failure?: Error) => {
        server.off('error', settle).off('listening', settle);
        resolve(failure);
      };
      server.once('error', settle).once('listening', settle);
      server.listen({ host: '127.0.0.1', port: port ?? 0, exclusive: true });
    });
    const address = server.address();
    if (!error && address && typeof address === 'object') return address.port;
    if (port === undefined || attempt >= attempts)
      throw new LoopbackError('port', `cannot listen on 127.0.0.1:${port ?? 0}`, { cause: error });
    await sleep(portRetryMs);
  }
}
