import type { IncomingMessage } from 'node:http';

import { GatewayRefusal } from '#gateway/gateway-refusal';

/**
 * The whole body of a request, at most `maxBytes`; a longer one is refused as soon as that is known.
 *
 * @throws {GatewayRefusal} `too_large`, `cancelled` when the caller went away before its end.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const tooLarge = () =>
    new GatewayRefusal('too_large', { detail: `at most ${maxBytes} bytes are taken` });
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
  // What went away while somebody looked who it was says so no more.
  if (request.destroyed) throw new GatewayRefusal('cancelled');
  if (request.complete) {
    const whole: Buffer = request.read() ?? Buffer.alloc(0);
    if (whole.length > maxBytes) throw tooLarge();
    return whole;
  }
  return new Promise<Buffer>((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) {
        request.removeAllListeners('data').resume();
        reject(tooLarge());
      } else {
        chunks.push(chunk);
      }
    });
    request.on('end', () =>
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)),
    );
    request.on('error', (cause) => reject(new GatewayRefusal('cancelled', { cause })));
    request.on('close', () => reject(new GatewayRefusal('cancelled')));
  });
}
