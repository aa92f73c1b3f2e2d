import { EventGap } from './event-gap.ts';
import type { GatewayAnswer } from './exchange.ts';
import { orSilence } from './or-silence.ts';

/** Proxies cut what is idle for a minute, some for half of that. */
const silentMs = 25_000;
const beat = Buffer.from(': still here\n\n');

/**
 * The same answer, whose stream of events is not idle for long: after 25 s of silence, and again after each
 * such time, there is a comment between two events.
 *
 * HTML Living Standard §9.2.7
 */
export function withHeartbeat(answer: GatewayAnswer): GatewayAnswer {
  const { headers, body } = answer;
  if (headers['Content-Type'] !== 'text/event-stream') return answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) return answer;
  return { ...answer, body: beating(body) };
}

async function* beating(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  const gap = new EventGap();
  try {
    let coming = iterator.next();
    for (;;) {
      const next = await orSilence(coming, silentMs);
      if (next === undefined) {
        if (gap.isOpen) yield beat;
      } else if (next.done) return;
      else {
        gap.push(next.value);
        yield next.value;
        coming = iterator.next();
      }
    }
  } finally {
    await iterator.return?.();
  }
}
