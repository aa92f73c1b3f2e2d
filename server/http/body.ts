import type { IncomingMessage } from 'node:http';

import { GatewayRefusal } from '#gateway/gateway-refusal';

/**
 * The whole body of a request, at most `maxBytes`. Returned directly if it has already arrived. A longer body is
 * refused as soon as its length is known. `arrived` is told the length of each part; `signal` ends the reading.
 *
 * @throws {GatewayRefusal} `too_large`, `cancelled` if the caller disconnects before the end, what `arrived` throws, and the reason
 *   of `signal`.
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  arrived: (bytes: number) => void = () => {},
  signal?: AbortSignal,
): Buffer | Promise<Buffer> {
  const tooLarge = () =>
    new GatewayRefusal('too_large', { detail: `at most ${maxBytes} bytes are accepted` });
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
  // The caller disconnected during authentication; no event will follow.
  if (request.destroyed) throw new GatewayRefusal('cancelled');
  if (request.complete) {
    const whole: Buffer = request.read() ?? Buffer.alloc(0);
    if (whole.length > maxBytes) throw tooLarge();
    arrived(whole.length);
    return whole;
  }
  return new Promise<Buffer>((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const take = (chunk: Buffer) => {
      bytes += chunk.length;
      try {
        if (bytes > maxBytes) throw tooLarge();
        arrived(chunk.length);
        chunks.push(chunk);
      } catch (refusal) {
        giveUp(refusal);
      }
    };
    const end = () => {
      const whole = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
      stop();
      resolve(whole);
    };
    const giveUp = (refusal: unknown) => {
      stop();
      request.resume();
      reject(refusal);
    };
    const abort = () => giveUp(signal?.reason);
    const cancel = (cause?: unknown) => {
      stop();
      reject(new GatewayRefusal('cancelled', { cause }));
    };
    // The request and the signal may be kept as long as a session, and what it was read into must not be.
    const stop = () => {
      chunks.length = 0;
      signal?.removeEventListener('abort', abort);
      request.off('data', take).off('end', end).off('error', cancel).off('close', cancel);
      request.on('error', ignore);
    };
    signal?.addEventListener('abort', abort, { once: true });
    request.on('data', take).on('end', end).on('error', cancel).on('close', cancel);
  });
}

/** Without a listener, an error that comes after the body would be thrown. */
function ignore(): void {}
