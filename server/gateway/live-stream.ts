import type { EndSignal } from '#model/ending';
import { backOffs, pauseMs } from '#model/back-off';
import { messageEvent } from 'latchkey-mcp/sse';

/** Proxies drop connections that are idle for a minute, some after half a minute. */
const silentMs = 25_000;
const beat = Buffer.from(': still here\n\n');

/**
 * A stream of whole events with a comment after every 25 s of silence. If the stream breaks off with an error that
 * `report` recognizes, it ends with the message that `report` returns.
 *
 * HTML Living Standard §9.2.7
 */
export async function* live(
  events: AsyncIterable<Uint8Array>,
  report?: (error: unknown) => string | undefined,
): AsyncGenerator<Uint8Array> {
  const iterator = events[Symbol.asyncIterator]();
  try {
    let coming = iterator.next();
    for (;;) {
      const next = await orSilence(coming, silentMs);
      if (next === undefined) yield beat;
      else if (next.done) return;
      else {
        yield next.value;
        coming = iterator.next();
      }
    }
  } catch (error) {
    const message = report?.(error);
    if (message === undefined) throw error;
    yield messageEvent(Buffer.from(message));
  } finally {
    await iterator.return?.();
  }
}

/** Resolves to the next value, or to `undefined` if nothing arrived within `ms`: then call it again with the same promise. */
export async function orSilence<Coming>(
  coming: Promise<Coming>,
  ms: number,
): Promise<Coming | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms).unref();
  });
  try {
    return await Promise.race([coming, silence]);
  } finally {
    clearTimeout(timer);
  }
}

const steadyMs = 30_000;

/**
 * The growing pauses before a stream that ended is opened again. They start over after a stream that stayed open for half a
 * minute; one that merely opened may end again immediately.
 */
export class ReopenPauses {
  #ended = 0;
  #openedAt: number | undefined;

  /** Call it when the stream is open. */
  opened(): void {
    this.#openedAt = performance.now();
  }

  /** Call it when the stream has ended or could not be opened. Waits until it may be opened again, or until `signal` aborts. */
  async pause(signal: EndSignal): Promise<void> {
    const wasSteady =
      this.#openedAt !== undefined && performance.now() - this.#openedAt >= steadyMs;
    this.#openedAt = undefined;
    if (wasSteady) this.#ended = 0;
    this.#ended += 1;
    if (signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const over = () => resolve();
    const timer = setTimeout(over, pauseMs(backOffs.upstreamStream, this.#ended)).unref();
    signal.addEventListener('abort', over, { once: true });
    await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', over);
  }
}
