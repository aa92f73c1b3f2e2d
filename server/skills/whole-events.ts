import type { SseEvent } from '#gateway/sse-event';
import { SseEvents } from '#gateway/sse-events';
import type { UpstreamAnswer } from '#gateway/upstream';

const maxBytes = 64 * 1024 * 1024;

/** A stream's events one by one, so that others can go between them. */
export async function* wholeEvents(body: UpstreamAnswer['body']): AsyncGenerator<SseEvent> {
  const splitter = new SseEvents({ maxBytes });
  for await (const chunk of body instanceof Uint8Array ? [body] : body) yield* splitter.push(chunk);
}
