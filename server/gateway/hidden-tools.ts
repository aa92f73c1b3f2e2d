import type { GatewayAnswer } from './exchange.ts';
import type { Envelope } from './json-scan.ts';
import { jsonAnswer } from './relay.ts';
import { responseIn, wholeBody } from './event-stream.ts';
import { toolsIn } from './tool-list.ts';
import type { UpstreamAnswer } from './upstream.ts';

/** Whether tools are to be taken out of this answer: a list of them, whatever its HTTP status. */
export function hidesTools(
  { method }: Envelope,
  { status, mediaType }: UpstreamAnswer,
  hidden: readonly string[],
): boolean {
  if (method !== 'tools/list' || hidden.length === 0) return false;
  const isRefusal = status === 400 || status === 404;
  return status === 200 || (isRefusal && mediaType === 'application/json');
}

/**
 * A `tools/list` answer without the tools that this server hides, always as JSON: read whole and cut,
 * so that every other byte stays. What cannot be understood is refused rather than passed on with
 * everything in it.
 *
 * @throws {GatewayRefusal} `upstream_failed`, `unreadable_tools`
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
 * @throws {GatewayRefusal} `unreadable_tools`
 */
export function messageWithoutTools(message: Buffer, hidden: readonly string[]): Buffer {
  const list = toolsIn(message);
  if (!list) return message;
  const kept = list.tools.filter(({ name }) => !hidden.includes(name));
  if (kept.length === list.tools.length) return message;
  const comma = Buffer.from(',');
  return Buffer.concat([
    message.subarray(0, list.span.start + 1),
    ...kept.flatMap(({ span }, i) => {
      const tool = message.subarray(span.start, span.end);
      return i > 0 ? [comma, tool] : [tool];
    }),
    message.subarray(list.span.end - 1),
  ]);
}
