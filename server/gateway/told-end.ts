import { EventGap } from './event-gap.ts';
import type { GatewayAnswer } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { UpstreamError } from './upstream.ts';

const eventStream = 'text/event-stream';

/**
 * The same answer, whose stream of events does not just stop when its upstream is lost or a limit ends it: a last event says so,
 * with the response that `words` makes. Inside an event nothing can be said, as it would be taken for a
 * part of it; the connection breaks off then, as it does for every other failure.
 */
export function toldEnd(
  answer: GatewayAnswer,
  words: (error: UpstreamError | GatewayRefusal) => string,
): GatewayAnswer {
  const { headers, body } = answer;
  if (headers['Content-Type'] !== eventStream) return answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) return answer;
  return { ...answer, body: told(body, words) };
}

async function* told(
  chunks: AsyncIterable<Uint8Array>,
  words: (error: UpstreamError | GatewayRefusal) => string,
): AsyncGenerator<Uint8Array> {
  const gap = new EventGap();
  try {
    for await (const chunk of chunks) {
      gap.push(chunk);
      yield chunk;
    }
  } catch (error) {
    const isKnown = error instanceof UpstreamError || error instanceof GatewayRefusal;
    if (!isKnown || !gap.isOpen) throw error;
    yield Buffer.from(`event: message\ndata: ${words(error)}\n\n`);
  }
}
