import { eventsIn, wholeBody } from '#gateway/event-stream';
import type { UpstreamAnswer } from '#gateway/upstream';
import { readMessage, type Message } from './message.ts';

const json = 'application/json';
const eventStream = 'text/event-stream';

/** Whether an answer carries messages, rather than a refusal of HTTP's. */
export function carriesMessages({ status, mediaType }: UpstreamAnswer): boolean {
  if (mediaType === json) return status === 200 || status === 400 || status === 404;
  return status === 200 && mediaType === eventStream;
}

/** The messages of an answer, as they come. What is no message is left out. */
export async function* said({ mediaType, body }: UpstreamAnswer): AsyncGenerator<Message> {
  if (mediaType !== eventStream) {
    const message = readMessage(await wholeBody(body));
    if (message) yield message;
    return;
  }
  for await (const { data } of eventsIn(body)) {
    // The bytes are read over by what comes next.
    const message = data.length > 0 ? readMessage(Buffer.from(data)) : undefined;
    if (message) yield message;
  }
}
