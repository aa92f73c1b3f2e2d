import type { GatewayAnswer } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { SseEvents } from './sse-events.ts';

const heldBytes = 1024 * 1024;

export interface AnswerLimits {
  /** `Infinity` for none. */
  readonly maxBytes: number;
  /** By which the call is ended. */
  readonly signal: AbortSignal;
  readonly cut: (refusal: GatewayRefusal) => void;
}

interface Long extends Pick<AnswerLimits, 'maxBytes' | 'cut'> {
  readonly held: readonly Uint8Array[];
  readonly bytes: number;
  readonly iterator: AsyncIterator<Uint8Array>;
}

/**
 * An answer that ends where its server's limits do. One of up to a megabyte is told whole: what is larger
 * than allowed is an error instead. Of a longer one a part may be gone by then; it breaks off, a stream of
 * events between two of them, where a last one says why.
 *
 * `cut` is told of a break that no answer says anything of.
 *
 * @throws {GatewayRefusal} `upstream_failed`, `too_slow`
 */
export async function limitedAnswer(
  answer: GatewayAnswer,
  { maxBytes, signal, cut }: AnswerLimits,
): Promise<GatewayAnswer> {
  const { body, headers } = answer;
  if (body === undefined) return answer;
  if (typeof body === 'string' || body instanceof Uint8Array) {
    if (Buffer.byteLength(body) > maxBytes) throw tooLarge(maxBytes);
    return answer;
  }
  const isStream = headers['Content-Type'] === 'text/event-stream';
  const timely = inTime(body, signal);
  if (isStream) return { ...answer, body: eventsWithin(timely, maxBytes) };
  return { ...answer, body: await bytesWithin(timely, maxBytes, cut) };
}

function tooLarge(maxBytes: number): GatewayRefusal {
  const detail = `its answer is larger than the ${maxBytes} bytes that this server allows`;
  return new GatewayRefusal('upstream_failed', { detail });
}

/** What ends it for being slow, rather than the break that follows from it. */
async function* inTime(
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw slownessIn(signal) ?? error;
  }
  // Some ends are quiet: a stream that was cut off must not look like one that is over.
  const slowness = slownessIn(signal);
  if (slowness) throw slowness;
}

/** The refusal by which a call was ended for taking too long. */
export function slownessIn({ aborted, reason }: AbortSignal): GatewayRefusal | undefined {
  return aborted && reason instanceof GatewayRefusal ? reason : undefined;
}

/** Event by event, so that none is cut. */
async function* eventsWithin(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  const splitter = new SseEvents({ maxBytes: Math.min(maxBytes, heldBytes), passLarge: true });
  let bytes = 0;
  for await (const chunk of chunks) {
    for (const { raw } of splitter.push(chunk)) {
      bytes += raw.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield raw;
    }
  }
}

/** Whole where it is short. */
async function bytesWithin(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
  cut: AnswerLimits['cut'],
): Promise<Uint8Array | AsyncIterable<Uint8Array>> {
  const held: Uint8Array[] = [];
  let bytes = 0;
  const iterator = chunks[Symbol.asyncIterator]();
  for (;;) {
    const next = await iterator.next();
    if (next.done) return Buffer.concat(held);
    held.push(next.value);
    bytes += next.value.length;
    if (bytes > maxBytes) {
      await iterator.return?.();
      throw tooLarge(maxBytes);
    }
    if (bytes > heldBytes) return rest({ held, bytes, iterator, maxBytes, cut });
  }
}

async function* rest({ held, bytes: heldSoFar, iterator, maxBytes, cut }: Long) {
  try {
    yield* held;
    let bytes = heldSoFar;
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) {
      bytes += next.value.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield next.value;
    }
  } catch (error) {
    if (error instanceof GatewayRefusal) cut(error);
    throw error;
  } finally {
    await iterator.return?.();
  }
}
