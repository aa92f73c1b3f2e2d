import { Readable } from 'node:stream';

import type { Dispatcher } from 'undici';

/** Up to this many bytes an answer is taken in one go, which costs half of streaming it. */
const shortBytes = 64 * 1024;

/** An HTTP answer: its body whole when it is short, else as it comes. */
export interface DispatchedAnswer {
  readonly statusCode: number;
  readonly header: (name: string) => string | undefined;
  readonly body: Uint8Array | Readable;
}

/**
 * Sends a request and resolves once its answer is there whole, or turns out to be long, or is a stream
 * of events, which is worth having as it comes. `signal` ends it at any time, the body included.
 */
export function dispatch(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  signal: AbortSignal,
): Promise<DispatchedAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let answer: Omit<DispatchedAnswer, 'body'> | undefined;
    let body: Readable | undefined;
    let bytes = 0;
    let chunks: Buffer[] = [];
    const abort = () => controller?.abort(new DOMException('the call was ended', 'AbortError'));
    const settle = () => signal.removeEventListener('abort', abort);

    const stream = () => {
      body = new Readable({
        read: () => controller?.resume(),
        destroy: (error, done) => {
          if (!body?.readableEnded && !controller?.aborted) abort();
          done(error);
        },
      });
      // Who reads it hears of its failure; one that nobody reads may be ended without a word.
      body.on('error', () => undefined);
      for (const chunk of chunks) body.push(chunk);
      chunks = [];
      if (answer) resolve({ ...answer, body });
    };

    if (signal.aborted) return reject(new DOMException('the call was ended', 'AbortError'));
    signal.addEventListener('abort', abort);
    dispatcher.dispatch(options, {
      onRequestStart(started) {
        controller = started;
        if (signal.aborted) abort();
      },
      onResponseStart(_, statusCode, headers) {
        if (statusCode < 200) return;
        const header = (name: string) => {
          const value = headers[name];
          return typeof value === 'object' ? value[0] : value;
        };
        answer = { statusCode, header };
        if (header('content-type')?.startsWith('text/event-stream')) stream();
      },
      onResponseData(current, chunk) {
        if (body) {
          if (!body.push(chunk)) current.pause();
          return;
        }
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > shortBytes) stream();
      },
      onResponseEnd() {
        settle();
        if (body) body.push(null);
        else if (answer) resolve({ ...answer, body: oneBuffer(chunks) });
      },
      onResponseError(_, error) {
        settle();
        if (body) body.destroy(error);
        else reject(answer && !signal.aborted ? new BrokenOff(error) : error);
      },
    });
  });
}

function oneBuffer(chunks: readonly Buffer[]): Buffer {
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

/** The connection ended inside a short answer. */
export class BrokenOff extends Error {
  override readonly name = 'BrokenOff';

  constructor(cause: Error) {
    super('the answer broke off', { cause });
  }
}
