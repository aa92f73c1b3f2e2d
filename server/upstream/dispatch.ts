import { Readable } from 'node:stream';

import type { Dispatcher } from 'undici';

/** Up to this many announced bytes an answer is taken in one go, which costs half of streaming it. */
const shortBytes = 64 * 1024;

/** An HTTP answer: its body whole when it was short, else as it comes. */
export interface DispatchedAnswer {
  readonly statusCode: number;
  readonly header: (name: string) => string | undefined;
  readonly body: Uint8Array | Readable;
}

/**
 * Sends a request and resolves once its answer has begun, or has ended where it is short. `signal` ends
 * it at any time, the body included.
 */
export function dispatch(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  signal: AbortSignal,
): Promise<DispatchedAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let body: Readable | undefined;
    let whole: ((bytes: Buffer) => void) | undefined;
    const chunks: Buffer[] = [];
    const reason = () => new DOMException('the call was ended', 'AbortError');
    const abort = () => controller?.abort(reason());
    const settle = () => signal.removeEventListener('abort', abort);

    if (signal.aborted) return reject(reason());
    signal.addEventListener('abort', abort);
    dispatcher.dispatch(options, {
      onRequestStart(started) {
        controller = started;
        if (signal.aborted) abort();
      },
      onResponseStart(_, statusCode, headers) {
        if (statusCode < 200) return;
        const header = (name: string) => [headers[name]].flat()[0];
        if (Number(header('content-length') ?? Infinity) <= shortBytes) {
          whole = (bytes) => resolve({ statusCode, header, body: bytes });
          return;
        }
        body = new Readable({
          read: () => controller?.resume(),
          destroy: (error, done) => {
            if (!signal.aborted) controller?.abort(error ?? reason());
            done(error);
          },
        });
        // Who reads it hears of its failure; one that nobody reads may be ended without a word.
        body.on('error', () => undefined);
        resolve({ statusCode, header, body });
      },
      onResponseData(current, chunk) {
        if (!body) chunks.push(chunk);
        else if (!body.push(chunk)) current.pause();
      },
      onResponseEnd() {
        settle();
        if (body) body.push(null);
        else whole?.(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
      },
      onResponseError(_, error) {
        settle();
        if (body) body.destroy(error);
        else reject(whole ? new BrokenOff(error) : error);
      },
    });
  });
}

/** The connection ended inside a short answer. */
export class BrokenOff extends Error {
  override readonly name = 'BrokenOff';

  constructor(cause: Error) {
    super('the answer broke off', { cause });
  }
}
