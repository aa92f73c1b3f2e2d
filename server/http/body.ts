import type { EndSignal } from '#model/ending';
import type { IncomingMessage } from 'node:http';

import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { GatewayRefusal } from '#gateway/gateway-refusal';

/** A body may have this many chunks, and one more for each 64 bytes. Parsing a chunk costs as much as parsing a thousand bytes. */
const freeChunks = 1024;
const leastChunkBytes = 64;
/** How much of a refused body is read, and for how long, before the connection is closed. */
const mostDroppedBytes = 4 * 1024 * 1024;
const mostDroppingMs = 2000;

/**
 * The whole body of a request, at most `maxBytes`. Returned directly if it has already arrived. A longer body is
 * refused as soon as its length is known. `arrived` is called with the length of each part; `signal` ends the reading.
 *
 * @throws {GatewayRefusal} `too_large`, `too_many_chunks`, `cancelled` if the caller disconnects before the end, what `arrived`
 *   throws, and the reason of `signal`.
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  arrived: (bytes: number) => void = () => {},
  signal?: EndSignal,
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
    const body = new GatheredBytes();
    let chunks = 0;
    const take = (chunk: Buffer) => {
      try {
        chunks += 1;
        if (body.length + chunk.length > maxBytes) throw tooLarge();
        if (chunks > freeChunks + body.length / leastChunkBytes) {
          throw new GatewayRefusal('too_many_chunks');
        }
        arrived(chunk.length);
        body.add(chunk);
      } catch (refusal) {
        giveUp(refusal);
      }
    };
    const end = () => {
      const whole = body.whole();
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
    // Remove the listeners: the request and the signal may live as long as a session, and the buffers must not.
    const stop = () => {
      body.clear();
      signal?.removeEventListener('abort', abort);
      request.off('data', take).off('end', end).off('error', cancel).off('close', cancel);
      request.on('error', ignore);
    };
    signal?.addEventListener('abort', abort, { once: true });
    request.on('data', take).on('end', end).on('error', cancel).on('close', cancel);
  });
}

/** The refusal of a body, with the status that the error handlers of all routes understand. */
class BodyRefusal extends Error {
  override readonly name = 'BodyRefusal';
  readonly statusCode: 400 | 413;

  constructor(cause: GatewayRefusal) {
    super(cause.code, { cause });
    this.statusCode = cause.code === 'too_large' ? 413 : 400;
  }
}

/**
 * Lets the routes of `app` receive bodies of up to `maxBytes` as they are, of any type.
 *
 * Fastify's own reader keeps each chunk of a body as a separate buffer. After a refusal, Fastify closes the connection.
 */
export function takeRawBodies(app: FastifyInstance, maxBytes: number): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
    try {
      return await readBody(payload, maxBytes);
    } catch (error) {
      if (!(error instanceof GatewayRefusal)) throw error;
      await dropRest(payload);
      throw new BodyRefusal(error);
    }
  });
}

/**
 * Reads and drops the rest of a body that was refused, for a limited time and up to a limit. Fastify closes the connection with the
 * answer; if bytes were still arriving then, the client would see a reset instead of the answer. RFC 9112 §9.6
 */
async function dropRest(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return;
  await new Promise<void>((resolve) => {
    let dropped = 0;
    const drop = (chunk: Buffer) => {
      dropped += chunk.length;
      if (dropped > mostDroppedBytes) stop();
    };
    const stop = () => {
      clearTimeout(timer);
      request.off('data', drop).off('end', stop).off('error', stop).off('close', stop);
      resolve();
    };
    const timer = setTimeout(stop, mostDroppingMs);
    request.on('data', drop).on('end', stop).on('error', stop).on('close', stop);
  });
}

/** Listens for errors after the body, which would otherwise be thrown. */
function ignore(): void {}
