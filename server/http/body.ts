import type { IncomingMessage } from 'node:http';

import { GatewayRefusal } from '#gateway/gateway-refusal';

/**
 * The whole body of a request, at most `maxBytes`. Returned directly if it has already arrived. A longer body is
 * refused as soon as its length is known. `arrived` is told the length of each part.
 *
 * @throws {GatewayRefusal} `too_large`, `cancelled` if the caller disconnects before the end, and what `arrived` throws.
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  arrived: (bytes: number) => void = () => {},
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
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      try {
        if (bytes > maxBytes) throw tooLarge();
        arrived(chunk.length);
        chunks.push(chunk);
      } catch (refusal) {
        // What was read is not kept while the rest arrives.
        chunks.length = 0;
        request.removeAllListeners('data').resume();
        reject(refusal);
      }
    });
    request.on('end', () =>
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)),
    );
    request.on('error', (cause) => reject(new GatewayRefusal('cancelled', { cause })));
    request.on('close', () => reject(new GatewayRefusal('cancelled')));
  });
}
