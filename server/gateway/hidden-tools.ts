import type { GatewayAnswer } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { elementsIn, membersIn, stringAt } from './json-parts.ts';
import { scanMessage } from './json-scan.ts';
import { jsonAnswer } from './relay.ts';
import { responseIn, wholeBody } from './event-stream.ts';
import type { UpstreamAnswer } from './upstream.ts';

/**
 * A `tools/list` answer without the tools that this server hides, always as JSON: read whole and cut,
 * so that every other byte stays. What cannot be understood is refused rather than passed on with
 * everything in it.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export async function withoutTools(
  answer: UpstreamAnswer,
  hidden: readonly string[],
): Promise<GatewayAnswer> {
  const isStream = answer.mediaType === 'text/event-stream';
  const bytes = isStream ? await responseIn(answer.body) : await wholeBody(answer.body);
  const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return jsonAnswer(answer.status, messageWithoutTools(message, hidden));
}

/**
 * The same for a message that is there whole.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export function messageWithoutTools(message: Buffer, hidden: readonly string[]): Buffer {
  const scan = scanMessage(message);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') throw unreadable();
  const result = membersIn(message, scan.envelope.root).get('result');
  if (!result) return message;
  const tools = membersIn(message, result).get('tools');
  if (!tools || message[tools.start] !== 0x5b) throw unreadable();
  const elements = elementsIn(message, tools);
  const kept = elements.filter((tool) => {
    const name = stringAt(message, membersIn(message, tool).get('name'));
    if (name === undefined) throw unreadable();
    return !hidden.includes(name);
  });
  if (kept.length === elements.length) return message;
  const comma = Buffer.from(',');
  return Buffer.concat([
    message.subarray(0, tools.start + 1),
    ...kept.flatMap(({ start, end }, i) => {
      const tool = message.subarray(start, end);
      return i > 0 ? [comma, tool] : [tool];
    }),
    message.subarray(tools.end - 1),
  ]);
}

function unreadable(): GatewayRefusal {
  return new GatewayRefusal('upstream_failed', { detail: 'its list of tools cannot be read' });
}
