import { eventsIn, wholeBody } from './event-stream.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { membersIn } from './json-parts.ts';
import { isError, scanMessage } from './json-scan.ts';
import type { Span } from './strict-json.ts';
import type { UpstreamAnswer } from './upstream.ts';

/** Makes another message of a response; `result` is where its result is. */
export type EditResult = (message: Buffer, result: Span) => Buffer;

/**
 * An upstream's answer whose result `edit` has changed, JSON or a stream of events. Whatever else is in it, an
 * error above all, passes as it is. What cannot be read is refused: a client could find a result in it that is as it was.
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
  if (message.length === 0 || isError(message)) return message;
  const scan = scanMessage(message);
  if (scan.outcome === 'refused') {
    const detail = `its answer cannot be read: ${scan.reason}`;
    throw new GatewayRefusal('upstream_failed', { detail });
  }
  if (scan.envelope.kind !== 'response') return message;
  const result = membersIn(message, scan.envelope.root).get('result');
  return result ? edit(message, result) : message;
}

async function* editedEvents(
  body: UpstreamAnswer['body'],
  edit: EditResult,
): AsyncGenerator<Uint8Array> {
  for await (const { raw, data, id, event } of eventsIn(body)) {
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
