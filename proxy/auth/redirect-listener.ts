import type http from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { randomBytes } from 'node:crypto';
import { LoopbackError } from './loopback-error.ts';
import { peerUser, type LocalConnection, type PeerUser } from './peer-user.ts';
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
   * A new address on this machine that leads the first browser that opens it to `page`, and no other
   * browser after that. Every user of the machine can read an argument list, so a program is started with
   * such an address and never with `page`, whose query is all that somebody needs to sign us in to an
   * account of theirs.
   *
   * Once a browser has followed one, only such a browser can bring the redirect.
   */
  linkTo(page: URL): URL;

  /**
   * The first redirect that `isOurs`; others, and those that came before this was asked, get a page
   * that says so and change nothing.
   *
   * @throws {LoopbackError} `timeout`, `aborted`, `other_browser`
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
  userOf?: (connection: LocalConnection) => PeerUser;
};

const portRetryMs = 300;
const handoverMs = 2_000;
/**
 * How long after the first visit the redirect is held back where we cannot tell whose browser visits: if
 * another user's was quicker than the one we opened, ours comes to the same link within this time.
 */
const secondVisitMs = 3_000;
const linkSeconds = 600;

const stray: RedirectPage = {
  status: 400,
  title: 'This page belongs to no sign-in',
  text: 'Nothing was changed. Close it, and begin again from the assistant or with latchkey login.',
};

const usedBefore: RedirectPage = {
  status: 410,
  title: 'This link was already used',
  text: 'Another browser opened it before this one. If that was not you, another user or program of this computer did. The sign-in is stopped; begin again from the assistant or with latchkey login, and check the account that it names.',
};

const otherBrowser: RedirectPage = {
  status: 400,
  title: 'You are not signed in',
  text: 'This sign-in was begun in another browser, or this browser keeps no cookies for 127.0.0.1. Nothing was kept; begin again from the assistant or with latchkey login.',
};

const otherUser: RedirectPage = {
  status: 403,
  title: 'This link belongs to another user of this computer',
  text: 'Nothing was changed.',
};

/**
 * Listens on a port of 127.0.0.1 for one redirect to one path.
 *
 * @throws {LoopbackError} `port`
 */
export async function redirectListener(
  {
    port,
    attempts = 10,
    host = '127.0.0.1',
    path = '/callback',
    userOf = peerUser,
  }: RedirectListenerOptions = {},
  sleep: (ms: number) => Promise<void>,
): Promise<RedirectListener> {
  const require = createRequire(import.meta.url);
  const { createServer }: Pick<typeof http, 'createServer'> = require('node:http');
  let waiting: {
    isOurs: (query: URLSearchParams) => boolean;
    found: (redirect: Redirect) => void;
    failed: (error: LoopbackError) => void;
  };
  let open = false;
  /** By path; `visitor` is the cookie of the browser that followed it. */
  const links = new Map<string, { page: URL; visitor?: string }>();
  const visitors = new Set<string>();
  let settled = Promise.resolve();

  const server = createServer({ headersTimeout: 5_000, requestTimeout: 5_000 }, take);
  server.maxConnections = 32;
  const bound = await listen(server, { port, attempts }, sleep);
  const authority = `${host}:${bound}`;
  // All ports of a host share their cookies.
  const cookieName = `latchkey-sign-in-${bound}`;

  function take(request: IncomingMessage, response: ServerResponse): void {
    const url = URL.parse(request.url ?? '', `http://${authority}`);
    // Another name that resolves to this machine is somebody's page, not the browser we sent.
    const link = links.get(url?.pathname ?? '');
    if (request.headers.host !== authority || !url || (url.pathname !== path && !link))
      return void response.writeHead(404, { connection: 'close' }).end();
    if (request.method !== 'GET')
      return void response.writeHead(405, { allow: 'GET', connection: 'close' }).end();
    if ((link || visitors.size > 0) && userOf(request.socket) === 'other')
      return void show(response, otherUser);
    const visitor = cookieOf(request, cookieName);
    if (link) return follow(link, visitor, request, response);
    if (!open || !waiting.isOurs(url.searchParams)) return void show(response, stray);
    if (visitors.size > 0 && !visitors.has(visitor))
      return stop(response, otherBrowser, 'another browser than the one that began it finished it');
    open = false;
    const redirect: Redirect = {
      query: url.searchParams,
      answer: (page) => show(response, page),
    };
    void settled.then(() => waiting.found(redirect));
  }

  /** The first browser gets a cookie and goes on; with that cookie it may come again. */
  function follow(
    link: { page: URL; visitor?: string },
    cookie: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    if (link.visitor !== undefined && link.visitor !== cookie)
      return stop(response, usedBefore, 'two browsers opened its link');
    const visitor = visitors.has(cookie) ? cookie : randomBytes(32).toString('base64url');
    if (visitors.size === 0 && userOf(request.socket) === 'unknown') settled = sleep(secondVisitMs);
    visitors.add(visitor);
    link.visitor = visitor;
    response.writeHead(303, {
      location: link.page.href,
      'set-cookie': `${cookieName}=${visitor}; Path=/; Max-Age=${linkSeconds}; HttpOnly; SameSite=Lax`,
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      connection: 'close',
    });
    response.end();
  }

  /** Whoever it was: nobody finishes this sign-in any more. */
  function stop(response: ServerResponse, page: RedirectPage, what: string): void {
    open = false;
    const why = `the sign-in was stopped because ${what}; if that was not you, another user or program of this machine did it`;
    void show(response, page).then(() => waiting.failed(new LoopbackError('other_browser', why)));
  }

  return {
    redirectUri: `http://${authority}${path}`,
    linkTo(page) {
      const link = `/sign-in/${randomBytes(24).toString('base64url')}`;
      links.set(link, { page });
      return new URL(link, `http://${authority}`);
    },
    async redirect(isOurs, { timeoutMs, signal }) {
      const { promise, resolve: found, reject } = Promise.withResolvers<Redirect>();
      waiting = { isOurs, found, failed: reject };
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

function cookieOf({ headers }: IncomingMessage, name: string): string {
  const pairs = (headers.cookie ?? '').split(/; */).map((pair) => pair.split('='));
  return pairs.find(([found]) => found === name)?.[1] ?? '';
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
