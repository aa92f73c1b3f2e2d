import { wholeBody } from './event-stream.ts';
import { membersIn } from './json-parts.ts';
import { scanMessage } from './json-scan.ts';
import { SseEvents } from './sse-events.ts';
import type { Span } from './strict-json.ts';
import type { UpstreamAnswer } from './upstream.ts';

const maxEventBytes = 64 * 1024 * 1024;

/** Makes another message of a response; `result` is where its result is. */
export type EditResult = (message: Buffer, result: Span) => Buffer;

/**
 * An upstream's answer whose result `edit` has changed, JSON or a stream of events. Whatever else is in it, an
 * error above all, passes as it is, and so does what cannot be read.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export async function editedAnswer(
  answer: UpstreamAnswer,
  edit: EditResult,
): Promise<UpstreamAnswer> {
  const { status, mediaType, body } = answer;
  if (status !== 200) return answer;
  if (mediaType === 'text/event-stream') return { ...answer, body: editedEvents(body, edit) };
  if (mediaType !== 'application/json') return answer;
  return { ...answer, body: editedMessage(await wholeBody(body), edit) };
}

function editedMessage(message: Buffer, edit: EditResult): Buffer {
  const scan = scanMessage(message);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') return message;
  const result = membersIn(message, scan.envelope.root).get('result');
  return result ? edit(message, result) : message;
}

async function* editedEvents(
  body: UpstreamAnswer['body'],
  edit: EditResult,
): AsyncGenerator<Uint8Array> {
  const splitter = new SseEvents({ maxBytes: maxEventBytes, passLarge: true });
  for await (const chunk of body instanceof Uint8Array ? [body] : body) {
    for (const { raw, data, id, event } of splitter.push(chunk)) {
      const message = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      const edited = editedMessage(message, edit);
      if (edited === message) {
        yield raw;
        continue;
      }
      const fields = [
        ...(id === undefined ? [] : [`id: ${id}`]),
        ...(event === undefined ? [] : [`event: ${event}`]),
        `data: ${edited.toString('utf8').replaceAll('\n', '\ndata: ')}`,
      ];
      yield Buffer.from(`${fields.join('\n')}\n\n`);
    }
  }
}
