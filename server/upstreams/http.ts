// HTTP upstreams: MCP servers over Streamable HTTP, each behind a pool of connections.
import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { isIP, type LookupFunction } from 'node:net';
import { Readable } from 'node:stream';

import { buildConnector, type Dispatcher, errors, Pool } from 'undici';

import type { Clock, EpochSeconds } from '#model/clock';
import {
  mediaTypeOf,
  type Upstream,
  type UpstreamAnswer,
  UpstreamError,
  type UpstreamRequest,
} from '#gateway/upstream';
import {
  checkedLookup,
  hostAndPort,
  isPlainlyForbidden,
  OutboundError,
  type OutboundGuard,
} from '#outbound/checked-addresses';

const idleSeconds = 300;
const closeIntervalMs = 60_000;

interface HttpPoolsOptions {
  /** Its allowed hosts apply to URLs that the operator did not enter. */
  readonly guard: OutboundGuard;
  readonly clock: Clock;
  /** After this time, a connection that has not opened fails; ten seconds by default. */
  readonly connectMs?: number;
}

/**
 * One connection pool for each URL, created on first use and closed when it was not used for five minutes. An upstream
 * outlives its pool: the next request creates another one.
 */
export class HttpPools {
  readonly #pools = new Map<string, { readonly http: HttpUpstream; usedAt: EpochSeconds }>();
  readonly #options: HttpPoolsOptions;
  readonly #timer: NodeJS.Timeout;

  constructor(options: HttpPoolsOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.closeIdle(), closeIntervalMs).unref();
  }

  get size(): number {
    return this.#pools.size;
  }

  upstream(url: string, publicOnly: boolean): Upstream {
    // A changed list of allowed hosts gets another pool, so that no open connection leads to a host that is no longer allowed.
    const name = () =>
      publicOnly ? `public ${this.#options.guard.allowedHosts.join(' ')} ${url}` : `any ${url}`;
    return { send: (request) => this.#poolOf(name(), url, publicOnly).send(request) };
  }

  /** Uses a public URL once, for example to test it. Its pool is closed afterwards, because there may be any number of such URLs. */
  async once<Result>(url: string, use: (upstream: Upstream) => Promise<Result>): Promise<Result> {
    const http = httpUpstream(url, this.#options.guard);
    try {
      return await use(http);
    } finally {
      await http.close();
    }
  }

  /** Closes pools that were not used for five minutes and have no request in progress; a timer calls it. */
  closeIdle(): void {
    const oldest = this.#options.clock.now() - idleSeconds;
    for (const [name, { http, usedAt }] of this.#pools) {
      if (usedAt > oldest || http.isBusy()) continue;
      this.#pools.delete(name);
      // No request is in progress, so an error while closing does no harm.
      http.close().catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#pools.values()].map(({ http }) => http.close()));
  }

  #poolOf(name: string, url: string, publicOnly: boolean): HttpUpstream {
    const { guard, clock, connectMs } = this.#options;
    const usedAt = clock.now();
    const known = this.#pools.get(name);
    if (known) {
      known.usedAt = usedAt;
      return known.http;
    }
    // The operator entered the other URLs, and thereby allowed their hosts.
    const allowedHosts = publicOnly ? guard.allowedHosts : [hostAndPort(new URL(url))];
    const http = httpUpstream(url, { ...guard, allowedHosts }, connectMs);
    this.#pools.set(name, { http, usedAt });
    return http;
  }
}

const mostConnectMs = 10_000;
const answerTimeoutMs = 600_000;
// Several times as many as one credential may have open, so that no caller can take all connections.
const maxConnections = 4096;
/** How many connections may be opening, so that a host that never accepts one does not cost `maxConnections` sockets. */
const maxOpening = 128;

/** An MCP server over Streamable HTTP, reached through a pool of keep-alive connections. */
export interface HttpUpstream extends Upstream {
  /** Whether a request or its answer is in progress. */
  readonly isBusy: () => boolean;
  close(): Promise<void>;
}

/**
 * Returns the MCP server at `url`. Redirects are not followed and cookies are not stored, so that no answer leads to
 * another URL than the configured one. Only addresses that the guard allows are dialled, whatever the name resolves to.
 */
export function httpUpstream(
  url: string,
  guard: OutboundGuard,
  connectMs = mostConnectMs,
): HttpUpstream {
  const asked = new URL(url);
  const { origin, hostname, pathname, search } = asked;
  const pool = new Pool(origin, {
    connections: maxConnections,
    connect: boundedConnector({ timeout: connectMs, lookup: checkedLookup(asked, guard) }),
    headersTimeout: answerTimeoutMs,
    bodyTimeout: 0,
  });
  const path = pathname + search;
  // A literal address is dialled without a lookup.
  const isForbidden = isLiteral(hostname) && isPlainlyForbidden(asked, guard);
  return {
    send(request) {
      const name = `${request.method} ${origin}`;
      if (!isForbidden) return new Exchange(request, name).begin(pool, path);
      const cause = new OutboundError('forbidden', `${hostname} is not on the public internet`);
      return Promise.reject(new UpstreamError('not_public', name, { cause }));
    },

    isBusy: () => pool.stats.size > 0,

    close: () => pool.destroy(),
  };
}

/** Connects as undici does, at most `maxOpening` connections at a time. The others wait in order, until the time limit for connecting. */
function boundedConnector({
  timeout,
  lookup,
}: {
  timeout: number;
  lookup: LookupFunction;
}): buildConnector.connector {
  const connect = buildConnector({ timeout, lookup });
  const waiting = new Set<() => void>();
  let opening = 0;
  return (options, found) => {
    const begin = () => {
      opening += 1;
      connect(options, (...outcome) => {
        opening -= 1;
        const [next] = waiting;
        next?.();
        found(...outcome);
      });
    };
    if (opening < maxOpening) return begin();
    const turn = () => {
      waiting.delete(turn);
      clearTimeout(late);
      begin();
    };
    const late = setTimeout(() => {
      waiting.delete(turn);
      found(new errors.ConnectTimeoutError('too many connections are being opened'), null);
    }, timeout).unref();
    waiting.add(turn);
  };
}

function isLiteral(hostname: string): boolean {
  return hostname.startsWith('[') || isIP(hostname) !== 0;
}

/** Answers up to this length are read whole, which costs half as much as streaming them. */
const shortBytes = 64 * 1024;
/** Shorter chunks of a stream are passed on together, because each costs a stream some 200 bytes. */
const smallBytes = 512;
/** The longest session ID that is accepted, as through a tunnel, because each session keeps its ID in memory. */
const longestSessionId = 1024;

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/**
 * One request and its answer. The answer is available when it has arrived whole, or turns out to be long or an event stream. The
 * signal of the request ends both at any time. Methods instead of closures, because every call creates one of these objects.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #request: UpstreamRequest;
  /** The name of the upstream in messages. */
  readonly #name: string;
  #resolve: (answer: UpstreamAnswer) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: Headers = {};
  /** The body, once the answer turned out to be long. */
  #stream: Readable | undefined;
  #isOver = false;
  /** The bytes that have arrived and are not in the stream yet. */
  readonly #arrived = new GatheredBytes();

  constructor(request: UpstreamRequest, name: string) {
    this.#request = request;
    this.#name = name;
  }

  begin(pool: Dispatcher, path: string): Promise<UpstreamAnswer> {
    const { method, headers, body, signal } = this.#request;
    if (signal.aborted) return Promise.reject(ended());
    const answer = new Promise<UpstreamAnswer>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    signal.addEventListener('abort', this);
    const sent = { ...headers, 'accept-encoding': 'identity', 'user-agent': 'latchkey-server' };
    pool.dispatch({ path, method, headers: sent, body: body ?? null }, this);
    return answer;
  }

  /** The signal was aborted. */
  handleEvent(): void {
    if (this.#controller) return this.#controller.abort(ended());
    // The request still waits for a connection, and is aborted once it has one.
    this.#settle();
    this.#reject(ended());
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#request.signal.aborted) this.handleEvent();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    // An event stream that ends in the same packet is read whole, like any other short answer.
    if (this.#header('content-type')?.startsWith('text/event-stream')) {
      queueMicrotask(() => this.#beginStream());
    }
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#arrived.add(chunk);
    if (!this.#stream) {
      if (this.#arrived.length > shortBytes) this.#beginStream();
    } else if (chunk.length >= smallBytes) this.#passOn();
    else if (this.#arrived.length === chunk.length) queueMicrotask(() => this.#passOn());
  }

  /** Passes on what has arrived: small chunks that came in the same packet together. */
  #passOn(): void {
    if (this.#arrived.length === 0) return;
    const bytes = this.#arrived.whole();
    this.#arrived.clear();
    if (this.#stream?.push(bytes) === false) this.#controller?.pause();
  }

  onResponseEnd(): void {
    this.#isOver = true;
    this.#settle();
    if (!this.#stream) return this.#answer(this.#arrived.whole());
    this.#passOn();
    this.#stream.push(null);
  }

  onResponseError(_: unknown, error: Error): void {
    this.#isOver = true;
    this.#settle();
    if (this.#stream) return void this.#stream.destroy(error);
    if (this.#request.signal.aborted) return this.#reject(error);
    // With a status, the connection broke within a short answer.
    const code = this.#status > 0 ? 'broken' : absenceOf(error);
    this.#reject(new UpstreamError(code, this.#name, { cause: error }));
  }

  #settle(): void {
    this.#request.signal.removeEventListener('abort', this);
  }

  #beginStream(): void {
    if (this.#stream || this.#isOver) return;
    const stream = new Readable({
      read: () => this.#controller?.resume(),
      destroy: (error, done) => {
        if (!stream.readableEnded && !this.#controller?.aborted) this.handleEvent();
        done(error);
      },
    });
    this.#stream = stream;
    // The reader gets the error. Without a reader, the error must not be unhandled.
    stream.on('error', () => undefined);
    this.#passOn();
    this.#answer(stream);
  }

  #answer(body: UpstreamAnswer['body']): void {
    // `content-encoding` is not passed on, so the caller could not decode it.
    const coding = this.#header('content-encoding');
    if (coding !== undefined && coding.toLowerCase() !== 'identity') {
      return this.#reject(new UpstreamError('encoded', 'the response is compressed'));
    }
    const sessionId = this.#header('mcp-session-id');
    if (sessionId !== undefined && sessionId.length > longestSessionId) {
      const why = `a session ID of more than ${longestSessionId} characters`;
      return this.#reject(new UpstreamError('broken', why));
    }
    const retryAfter = this.#header('retry-after');
    const isSeconds = retryAfter !== undefined && /^[1-9]\d{0,5}$/.test(retryAfter);
    this.#resolve({
      status: this.#status,
      mediaType: mediaTypeOf(this.#header('content-type') ?? ''),
      sessionId,
      challenge: this.#header('www-authenticate'),
      retryAfterSeconds: isSeconds ? Number(retryAfter) : undefined,
      body,
    });
  }

  #header(name: string): string | undefined {
    const value = this.#headers[name];
    return typeof value === 'object' ? value[0] : value;
  }
}

/** Why there was no answer at all, by the error of the network. */
function absenceOf(error: unknown): UpstreamError['code'] {
  if (error instanceof errors.HeadersTimeoutError) return 'timeout';
  if (error instanceof OutboundError) {
    if (error.code === 'forbidden' || error.code === 'not_public') return 'not_public';
    return 'unknown_host';
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return isTlsError(code) ? 'tls' : 'unreachable';
}

/**
 * Whether the code of an error says that no TLS connection can be made. Node.js has no list of such codes: OpenSSL names the causes for
 * which it rejects a certificate. Node.js documentation, "X509 certificate error codes"
 */
export function isTlsError(code: string): boolean {
  return /CERT|LEAF_SIGNATURE|^INVALID_(?:CA|PURPOSE)$|^PATH_LENGTH_EXCEEDED$|^HOSTNAME_MISMATCH$|^ERR_(?:TLS|SSL)|^EPROTO$/.test(
    code,
  );
}

function ended(): DOMException {
  return new DOMException('the call was ended', 'AbortError');
}
