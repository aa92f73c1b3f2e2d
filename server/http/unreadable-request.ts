import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import type { Logger } from '#log/log';

/** Answers bytes that are no HTTP request. */
export interface UnreadableRequests {
  /** Told of every error of the parser. */
  readonly answer: (error: Error & { readonly code?: string }, socket: Duplex) => void;
  /** Watches which requests of a connection are still to be answered. */
  readonly watch: (server: Server) => void;
}

/**
 * Answers what is no HTTP request in the form of every other answer, and closes the connection: where
 * the next request would begin nobody can say. No words go out where an answer was begun or an earlier
 * one is due, as they would be taken for it. RFC 9112 §2.2
 */
export function unreadableRequests(log: Logger): UnreadableRequests {
  const latest = new WeakMap<Duplex, ServerResponse>();
  return {
    watch: (server) =>
      void server.prependListener('request', ({ socket }, response) => {
        latest.set(socket, response);
      }),

    answer(error, socket) {
      if (error.code === 'ECONNRESET' || socket.destroyed) return;
      const status = statusOf(error.code);
      const id = randomUUID();
      log.info({ id, status, reason: error.code }, 'request unreadable');
      if (isUnanswered(latest.get(socket), socket)) socket.write(words(status, id));
      socket.end(() => socket.destroy());
    },
  };
}

/** Whether the error is the first thing to be said, about a new request or about this one's body. */
function isUnanswered(response: ServerResponse | undefined, socket: Duplex): boolean {
  if (!response || (response.writableFinished && response.req.complete)) return true;
  return response.socket === socket && !response.headersSent && !response.req.complete;
}

const descriptions = {
  400: 'this is not an HTTP request',
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
