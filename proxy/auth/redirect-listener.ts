import type http from 'node:http';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, OutgoingHttpHeaders, Server, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { endianness, userInfo } from 'node:os';
import { LoopbackError } from './errors.ts';

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
   * such an address and never with `page`, whose query is all that an attacker needs to sign us in to their own
   * account.
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
  title: 'No sign-in in progress',
  text: 'Nothing was changed. Close this page, then start again from the assistant or with latchkey login.',
};

const usedBefore: RedirectPage = {
  status: 410,
  title: 'This link was already used',
  text: 'Another browser opened this link first. If that was not you, another user or program on this computer opened it. The sign-in was stopped. Start again from the assistant or with latchkey login, and check the account that it shows.',
};

const otherBrowser: RedirectPage = {
  status: 400,
  title: 'You are not signed in',
  text: 'This sign-in started in another browser, or this browser does not store cookies for 127.0.0.1. Nothing was stored. Start again from the assistant or with latchkey login.',
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
    // A request by another name that resolves to this host comes from a web page, not from the browser we opened.
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
      return stop(
        response,
        otherBrowser,
        'it was finished in a different browser than it was started in',
      );
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
      return stop(response, usedBefore, 'two browsers opened the link');
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

  /** The sign-in cannot be finished after this, no matter who interfered. */
  function stop(response: ServerResponse, page: RedirectPage, what: string): void {
    open = false;
    const why = `the sign-in was stopped because ${what}; if that was not you, another user or program on this computer did it`;
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
        () => reject(new LoopbackError('timeout', `no sign-in within ${minutes} minutes`)),
        timeoutMs,
      );
      const abort = () => reject(new LoopbackError('aborted', 'the sign-in was cancelled'));
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

export type RedirectPage = { status: number; title: string; text: string };

const style = `:root{color-scheme:light dark;--ground:oklch(98% .004 200);--ink:oklch(25% .02 210);--ink-soft:oklch(48% .02 210);--accent:oklch(48% .09 195)}
@media(prefers-color-scheme:dark){:root{--ground:oklch(20% .012 210);--ink:oklch(93% .01 200);--ink-soft:oklch(72% .015 205);--accent:oklch(76% .1 190)}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:480px;margin:0 auto;padding:48px 24px}
p{color:var(--ink-soft);margin:0 0 12px;overflow-wrap:anywhere}
.mark{color:var(--accent);font-size:14px;font-weight:600}
h1{font-size:20px;font-weight:600;margin:12px 0}`;

const styleHash = createHash('sha256').update(style).digest('base64');

/** What the browser may do with it: show it. Nothing else is loaded, run, framed, kept or told. */
const headers: OutgoingHttpHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  connection: 'close',
};

/** A page for the browser of a sign-in: its outcome, and where to continue. */
export function redirectPage({ title, text }: RedirectPage): {
  headers: OutgoingHttpHeaders;
  body: string;
} {
  const body = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)} · Latchkey</title><style>${style}</style></head>
<body><main><p class="mark">Latchkey</p><h1>${escaped(title)}</h1><p>${escaped(text)}</p></main></body></html>
`;
  return { headers, body };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The two ends of a connection over IPv4, as our socket names them. */
export type LocalConnection = {
  remoteAddress?: string | undefined;
  remotePort?: number | undefined;
  localAddress?: string | undefined;
  localPort?: number | undefined;
};

/** Whose program is at the other end: this user's, another user's, or we cannot tell. */
export type PeerUser = 'same' | 'other' | 'unknown';

/** A program may reach an IPv4 address with a socket of IPv6, too. */
const tables = ['/proc/net/tcp', '/proc/net/tcp6'];

/**
 * Which user of this host opened a connection to us, from the kernel's own table. Only Linux has one that every user
 * can read.
 *
 * proc_pid_net(5)
 */
export function peerUser(
  { remoteAddress, remotePort, localAddress, localPort }: LocalConnection,
  readText: (path: string) => string = (path) => readFileSync(path, 'utf8'),
  ownId: number = userInfo().uid,
): PeerUser {
  const from = inTable(remoteAddress, remotePort);
  const to = inTable(localAddress, localPort);
  const rows = tables.flatMap((path) => rowsOf(path, readText));
  const row = rows.find(([, local, remote]) => local?.endsWith(from) && remote?.endsWith(to));
  const id = Number(row?.[7] ?? Number.NaN);
  if (id === ownId) return 'same';
  // The kernel shows 0 also for a connection that its program has closed, and for relays such as WSL's.
  return Number.isNaN(id) || id === 0 ? 'unknown' : 'other';
}

function rowsOf(path: string, readText: (path: string) => string): string[][] {
  try {
    return readText(path)
      .split('\n')
      .map((line) => line.trim().split(/\s+/));
  } catch {
    return [];
  }
}

/** `0100007F:1F90` for 127.0.0.1:8080: the address in the machine's byte order, the port in the network's. */
function inTable(address = '', port = 0): string {
  const bytes = address.split('.').map((part) => hex(Number(part), 2));
  if (endianness() === 'LE') bytes.reverse();
  return `${bytes.join('')}:${hex(port, 4)}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}
