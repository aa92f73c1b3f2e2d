import { randomUUID } from 'node:crypto';
import {
  type IncomingMessage,
  maxHeaderSize,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyRequest } from 'fastify';

import { headerLines } from 'latchkey-mcp/headers';

import type { RefusalLog } from '#audit/counted-refusals';
import type { Logger } from '#log/log';
import { networkOf } from '#model/networks';
import type { FailedAttempts } from '#oauth/failed-attempts';
import { OAuthError } from '#oauth/oauth-error';

/**
 * Detects requests that a reverse proxy could frame differently: a transfer coding other than `chunked`, any transfer
 * coding in HTTP/1.0, or not exactly one `Host` (in HTTP/1.0, more than one). The HTTP parser refuses other ambiguities. Later
 * requests on such a connection are suspect too, since they have already been parsed. RFC 9112 §3.2, §6.1
 */
export function framingGuard(): (request: IncomingMessage) => boolean {
  const suspect = new WeakSet<Socket>();
  return (request) => {
    if (!suspect.has(request.socket) && !isAmbiguous(request)) return false;
    suspect.add(request.socket);
    return true;
  };
}

function isAmbiguous({ headers, rawHeaders, httpVersion }: IncomingMessage): boolean {
  const isOld = httpVersion === '1.0';
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || isOld)) return true;
  const hosts = headerLines(rawHeaders, 'host').length;
  return isOld ? hosts > 1 : hosts !== 1;
}

/**
 * Whether a request's header is longer than Node's limit. Node's parser does not count the separators of names and values, so very
 * many short lines would pass it.
 */
export function isLongHeader({ rawHeaders }: IncomingMessage): boolean {
  // A colon and the end of the line for each name and value.
  const separators = (rawHeaders.length / 2) * 3;
  return rawHeaders.reduce((sum, { length }) => sum + length, separators) > maxHeaderSize;
}

/** The host that a request names: in its target if that is an absolute URL, otherwise in `Host`. RFC 9112 §3.2.2 */
export function namedHost({ url = '/', headers }: IncomingMessage): string | undefined {
  return url.startsWith('/') || !URL.canParse(url) ? headers.host : new URL(url).host;
}

/**
 * Whether a `Host` header names the server at `base`. Any other comes from DNS rebinding or a misrouted request, and
 * neither may reach anything. MCP 2025-06-18 transports, "Security Warning"
 */
export function ownHost(base: string): (host: string | undefined) => boolean {
  const { host: own, port, protocol } = new URL(base);
  // A client may include the default port of the scheme. RFC 9110 §4.2.3
  const spelt = port === '' ? `${own}:${protocol === 'https:' ? 443 : 80}` : own;
  const names = new Set([own, spelt]);
  return (host) => host !== undefined && names.has(host.toLowerCase());
}

/** Whether a browser at `origin` may call: no origin, our own, or one that the operator listed. */
export function isAllowedOrigin(
  origin: string | undefined,
  base: string,
  allowed: readonly string[],
): boolean {
  return origin === undefined || origin === base || allowed.includes(origin);
}

/**
 * Returns a function that closes all connections on which nothing is in progress. Node's own `closeIdleConnections` leaves open the
 * connections that never carried a request, such as those that clients open in advance, or to replace one whose call they aborted.
 */
export function idleConnections(server: Server): () => void {
  const unused = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  server.prependListener('request', ({ socket }) => unused.delete(socket));
  return () => {
    server.closeIdleConnections();
    // A connection that has begun to send a request may finish it.
    for (const socket of unused) if (socket.bytesRead === 0) socket.destroy();
  };
}

/**
 * Returns the caller that `find` recognizes by its secret. Failures count against the network of the request and are recorded as
 * `action`.
 *
 * @throws {OAuthError} `slow_down`, or `invalid_client` with `words`
 */
export async function authenticated<Caller>(
  { ip: address, id: requestId }: Pick<FastifyRequest, 'ip' | 'id'>,
  find: () => Promise<Caller | undefined>,
  by: { attempts: FailedAttempts; refusals: RefusalLog; action: string; words: string },
): Promise<Caller> {
  const attempt = { address: networkOf(address), clientId: undefined };
  return by.attempts.guard(attempt, async () => {
    const caller = await find();
    if (caller) return caller;
    const unknown = { actor: 'anonymous', organization: undefined, target: undefined };
    await by.refusals.note({ ...unknown, action: by.action, address, requestId });
    throw new OAuthError('invalid_client', by.words);
  });
}

/** The id and the route of a request for its log line, as far as they are known. */
export interface RequestName {
  readonly id?: string;
  readonly route?: string | undefined;
}

/**
 * Writes the log line of a request when its response has ended, even if the caller disconnected or the connection broke,
 * which is logged as `cut`. Without a response head, the line has no status.
 */
export function requestLine(
  { method }: IncomingMessage,
  response: ServerResponse,
  { log, name }: { readonly log: Logger; readonly name: () => RequestName | undefined },
): void {
  const startedAt = performance.now();
  // `close` also comes after `finish`; listening to both would write two lines for an upgrade.
  response.once('close', () => {
    const { headersSent, statusCode, writableFinished } = response;
    const { id, route } = name() ?? {};
    const status = headersSent ? statusCode : undefined;
    const ms = Math.round(performance.now() - startedAt);
    log.info({ id, method, route, status, ms, ...(!writableFinished && { cut: true }) }, 'request');
  });
}

/**
 * Answers bytes that are not an HTTP request in the form of every other error, and closes the connection, because it is
 * unknown where the next request would begin. Sends nothing if a response has begun or an earlier one is due, since the
 * error would be mistaken for that response. RFC 9112 §2.2
 */
export function unreadableRequests(log: Logger) {
  const latest = new WeakMap<Duplex, ServerResponse>();
  return {
    /** Keeps track of the unanswered requests of each connection. */
    watch: (server: Server) =>
      void server.prependListener('request', ({ socket }, response) => {
        latest.set(socket, response);
      }),

    /** Called for every error of the parser. */
    answer(error: Error & { readonly code?: string }, socket: Duplex): void {
      if (error.code === 'ECONNRESET' || socket.destroyed) return;
      const status = statusOf(error.code);
      const id = randomUUID();
      log.info({ id, status, reason: error.code }, 'request unreadable');
      if (isUnanswered(latest.get(socket), socket)) socket.write(words(status, id));
      socket.end(() => socket.destroy());
    },
  };
}

/** Answers bytes that are not an HTTP request. */
export type UnreadableRequests = ReturnType<typeof unreadableRequests>;

/** Whether no response is due or under way, for an earlier request or for the one whose body failed. */
function isUnanswered(response: ServerResponse | undefined, socket: Duplex): boolean {
  if (!response || (response.writableFinished && response.req.complete)) return true;
  return response.socket === socket && !response.headersSent && !response.req.complete;
}

export const descriptions = {
  400: 'not an HTTP request',
  408: 'the request did not arrive in time',
  431: 'the header is too large',
};

function statusOf(code: string | undefined): keyof typeof descriptions {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408;
  return code === 'HPE_HEADER_OVERFLOW' ? 431 : 400;
}

function words(status: keyof typeof descriptions, id: string): string {
  const body = JSON.stringify({
    error: 'invalid_request',
    error_description: descriptions[status],
  });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${id}`,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}
