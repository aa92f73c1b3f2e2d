import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Logger } from '#log/log';

/** What the log calls a request, as far as it got. */
export interface RequestName {
  readonly id?: string;
  readonly route?: string | undefined;
}

/**
 * Says in one line of the log how a request ended, once nothing more of its answer goes out: also where its caller left,
 * or the connection broke, which is `cut`. An answer of which not even the head was sent has no status.
 */
export function requestLine(
  { method }: IncomingMessage,
  response: ServerResponse,
  { log, name }: { readonly log: Logger; readonly name: () => RequestName | undefined },
): void {
  const startedAt = performance.now();
  // Who finishes is closed too, and an upgrade that is answered would be so twice.
  response.once('close', () => {
    const { headersSent, statusCode, writableFinished } = response;
    const { id, route } = name() ?? {};
    const status = headersSent ? statusCode : undefined;
    const ms = Math.round(performance.now() - startedAt);
    log.info({ id, method, route, status, ms, ...(!writableFinished && { cut: true }) }, 'request');
  });
}
