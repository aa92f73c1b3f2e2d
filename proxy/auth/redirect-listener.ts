import type http from 'node:http';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, OutgoingHttpHeaders, Server, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { endianness, userInfo } from 'node:os';
import { LoopbackError } from './errors.ts';

export type Redirect = {
  query: URLSearchParams;
  /** Shows the outcome in the browser. Resolves when the browser has received the page. */
  answer: (page: RedirectPage) => Promise<void>;
};

export type RedirectListenerOptions = {
  /** Tried again while another program uses it. By default, any free port is used. */
  port?: number | undefined;
  attempts?: number;
  host?: string | undefined;
  path?: string | undefined;
  userOf?: (connection: LocalConnection) => PeerUser;
};

const portRetryMs = 300;
const handoverMs = 2_000;
/**
 * How long the redirect is held back after the first visit, if the user of the browser is unknown. If another user's browser was
 * faster than the one that we opened, ours visits the same link within this time, which stops the sign-in.
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
  options: RedirectListenerOptions = {},
  sleep: (ms: number) => Promise<void>,
): Promise<RedirectListener> {
  const load = createRequire(import.meta.url);
  const { createServer }: Pick<typeof http, 'createServer'> = load('node:http');
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 5_000 });
  server.maxConnections = 32;
  const port = await listen(server, options, sleep);
  return new LoopbackListener(server, port, options, sleep);
}

/** `visitor` is the cookie of the browser that followed the link. */
type Link = { page: URL; visitor?: string };

type WaitingForRedirect = {
  isOurs: (query: URLSearchParams) => boolean;
  resolve: (redirect: Redirect) => void;
  reject: (error: LoopbackError) => void;
};

/** Waits for a browser to come back from an authorization server. RFC 8252 §7.3 */
class LoopbackListener {
  readonly redirectUri: string;
  readonly #server: Server;
  readonly #authority: string;
  readonly #path: string;
  /** All ports of a host share their cookies, so the name contains the port. */
  readonly #cookieName: string;
  readonly #userOf: (connection: LocalConnection) => PeerUser;
  readonly #sleep: (ms: number) => Promise<void>;
  /** By path. */
  readonly #links = new Map<string, Link>();
  readonly #visitors = new Set<string>();
  #waiting: WaitingForRedirect | undefined;
  #isOpen = false;
  #settled = Promise.resolve();

  constructor(
    server: Server,
    port: number,
    { host = '127.0.0.1', path = '/callback', userOf = peerUser }: RedirectListenerOptions,
    sleep: (ms: number) => Promise<void>,
  ) {
    this.#server = server.on('request', (...exchange) => this.#take(...exchange));
    this.#authority = `${host}:${port}`;
    this.#path = path;
    this.redirectUri = `http://${this.#authority}${path}`;
    this.#cookieName = `latchkey-sign-in-${port}`;
    this.#userOf = userOf;
    this.#sleep = sleep;
  }

  /**
   * Creates an address on this host that redirects the first browser that opens it to `page`, and no other browser. Every user of
   * the host can read the arguments of a program, so a browser is started with such an address and never with `page`: with the
   * query of `page`, an attacker could sign us in to their own account.
   *
   * After a browser has followed such a link, only a browser that did so can bring the redirect.
   */
  linkTo(page: URL): URL {
    const path = `/sign-in/${randomBytes(24).toString('base64url')}`;
    this.#links.set(path, { page });
    return new URL(path, `http://${this.#authority}`);
  }

  /**
   * Resolves to the first redirect that `isOurs` accepts. Other redirects, and those before this call, change nothing and get a
   * page that says that no sign-in is in progress.
   *
   * @throws {LoopbackError} `timeout`, `aborted`, `other_browser`
   */
  async redirect(
    isOurs: (query: URLSearchParams) => boolean,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<Redirect> {
    const { promise, resolve, reject } = Promise.withResolvers<Redirect>();
    this.#waiting = { isOurs, resolve, reject };
    this.#isOpen = true;
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
      this.#isOpen = false;
    });
  }

  /** Frees the port immediately. */
  async close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    const url = URL.parse(request.url ?? '', `http://${this.#authority}`);
    const link = this.#links.get(url?.pathname ?? '');
    // A request to another name that resolves to this host comes from a web page, not from the link or redirect.
    if (request.headers.host !== this.#authority || !url || (url.pathname !== this.#path && !link))
      return void response.writeHead(404, { connection: 'close' }).end();
    if (request.method !== 'GET')
      return void response.writeHead(405, { allow: 'GET', connection: 'close' }).end();
    if ((link || this.#visitors.size > 0) && this.#userOf(request.socket) === 'other')
      return void show(response, otherUser);
    const visitor = cookieOf(request, this.#cookieName);
    if (link) return this.#follow(link, visitor, request, response);
    const { searchParams: query } = url;
    if (!this.#isOpen || !this.#waiting?.isOurs(query)) return void show(response, stray);
    if (this.#visitors.size > 0 && !this.#visitors.has(visitor))
      return this.#stop(
        response,
        otherBrowser,
        'it was finished in a different browser than it was started in',
      );
    this.#isOpen = false;
    const redirect: Redirect = { query, answer: async (page) => show(response, page) };
    void this.#settled.then(() => this.#waiting?.resolve(redirect));
  }

  /** Redirects the first browser and gives it a cookie, with which it may open the link again. */
  #follow(link: Link, cookie: string, request: IncomingMessage, response: ServerResponse): void {
    if (link.visitor !== undefined && link.visitor !== cookie)
      return this.#stop(response, usedBefore, 'two browsers opened the link');
    const visitor = this.#visitors.has(cookie) ? cookie : randomBytes(32).toString('base64url');
    if (this.#visitors.size === 0 && this.#userOf(request.socket) === 'unknown')
      this.#settled = this.#sleep(secondVisitMs);
    this.#visitors.add(visitor);
    link.visitor = visitor;
    response.writeHead(303, {
      location: link.page.href,
      'set-cookie': `${this.#cookieName}=${visitor}; Path=/; Max-Age=${linkSeconds}; HttpOnly; SameSite=Lax`,
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      connection: 'close',
    });
    response.end();
  }

  /** Ends the sign-in, whichever of the browsers was the intruder. */
  #stop(response: ServerResponse, page: RedirectPage, what: string): void {
    this.#isOpen = false;
    const why = `the sign-in was stopped because ${what}; if that was not you, another user or program on this computer did it`;
    void show(response, page).then(() =>
      this.#waiting?.reject(new LoopbackError('other_browser', why)),
    );
  }
}

export type RedirectListener = Pick<LoopbackListener, keyof LoopbackListener>;

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
  { port, attempts = 10 }: RedirectListenerOptions,
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

/** The browser only shows the page. It loads, runs, embeds and stores nothing, and sends no referrer. */
const headers: OutgoingHttpHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  connection: 'close',
};

/** The page that shows the outcome of a sign-in, and where to continue. */
function redirectPage({ title, text }: RedirectPage): {
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

/** The two ends of a connection over IPv4, as the socket names them. */
export type LocalConnection = {
  remoteAddress?: string | undefined;
  remotePort?: number | undefined;
  localAddress?: string | undefined;
  localPort?: number | undefined;
};

/** Whether the program at the other end belongs to this user. */
export type PeerUser = 'same' | 'other' | 'unknown';

/** A program can also connect to an IPv4 address with an IPv6 socket. */
const tables = ['/proc/net/tcp', '/proc/net/tcp6'];

/**
 * Which user of this host opened a connection to us, from the kernel's table of connections. Only Linux lets every user read
 * that table.
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
  const rows = tables
    .flatMap((path) => linesOf(path, readText))
    // A busy host has many thousands of rows.
    .filter((line) => line.includes(from) && line.includes(to))
    .map((line) => line.trim().split(/\s+/));
  const row = rows.find(([, local, remote]) => local?.endsWith(from) && remote?.endsWith(to));
  const id = Number(row?.[7] ?? Number.NaN);
  if (id === ownId) return 'same';
  // The kernel also shows 0 for a connection that its program has closed, and for relays such as WSL's.
  return Number.isNaN(id) || id === 0 ? 'unknown' : 'other';
}

function linesOf(path: string, readText: (path: string) => string): string[] {
  try {
    return readText(path).split('\n');
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
