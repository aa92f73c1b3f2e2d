import type { IncomingMessage } from 'node:http';
import { readMessage, type Message } from '#jsonrpc/message';
import type { Log } from '#log/log';
import { eventStream, EventTooLargeError } from './event-stream.ts';
import { UpstreamError, type Deliver } from './upstream.ts';

/** Where a stream was left, so that another can go on from there. */
export type StreamPosition = { lastEventId?: string; retryMs?: number };

/**
 * Delivers the messages of an event stream until it ends or breaks off; both look alike to whoever
 * waits for more. Events of other types and what is no JSON-RPC are passed over. `position` moves
 * along.
 *
 * @returns whether anything came
 * @throws {UpstreamError} `too_large`
 */
export async function readEvents(
  response: IncomingMessage,
  position: StreamPosition,
  deliver: Deliver,
  { maxMessageBytes, log }: { maxMessageBytes: number; log: Log },
): Promise<boolean> {
  let moved = false;
  const events = eventStream(response as AsyncIterable<Buffer>, maxMessageBytes);
  for (;;) {
    const next = await events.next().catch((error: unknown) => {
      if (!(error instanceof EventTooLargeError)) {
        log.debug('event stream broke off', { reason: String(error) });
        return { done: true as const, value: undefined };
      }
      response.destroy();
      throw new UpstreamError('too_large', `a message is over ${maxMessageBytes} bytes`, {
        status: response.statusCode ?? 200,
      });
    });
    if (next.done) return moved;
    const { type, id, retryMs, data } = next.value;
    moved = true;
    if (id !== undefined) position.lastEventId = id;
    if (retryMs !== undefined) position.retryMs = retryMs;
    const message = type === 'message' && data.length > 0 ? parse(data, log) : undefined;
    if (message) await deliver(message);
  }
}

function parse(data: Buffer, log: Log): Message | undefined {
  try {
    return readMessage(data);
  } catch (error) {
    log.warn('event is no JSON-RPC message', { reason: String(error) });
    return undefined;
  }
}
