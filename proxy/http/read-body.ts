import type { IncomingMessage } from 'node:http';

/**
 * The whole body, or `undefined` when it is longer than `maxBytes`; the rest is then dropped. Listens by
 * itself, as an iterator of the stream costs as much as all else that is done for a short answer.
 *
 * @throws {Error} when it breaks off
 */
export async function readBody(
  response: IncomingMessage,
  maxBytes: number,
): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const take = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) return void chunks.push(chunk);
      resolve(undefined);
      response.destroy();
    };
    response.on('data', take);
    response.once('end', () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    response.once('error', reject);
    response.once('close', () => reject(new Error('the body broke off')));
    if (response.destroyed || response.errored)
      reject(response.errored ?? new Error('the body broke off'));
  });
}
