import type { IncomingMessage } from 'node:http';

/**
 * The whole body, or `undefined` when it is longer than `maxBytes`; the rest is then dropped. Listens by
 * itself, as an iterator of the stream costs as much as all else that is done for a short answer.
 *
 * @throws {Error} when it breaks off
 */
export function readBody(response: IncomingMessage, maxBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let over = false;
    const brokenOff = () => {
      // An error is made for those who get it: its stack costs as much as the rest.
      if (!over) reject(response.errored ?? new Error('the body broke off'));
    };
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) return void chunks.push(chunk);
      over = true;
      resolve(undefined);
      response.destroy();
    });
    response.on('end', () => {
      over = true;
      resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    });
    response.on('error', brokenOff);
    response.on('close', brokenOff);
    if (response.destroyed) brokenOff();
  });
}
