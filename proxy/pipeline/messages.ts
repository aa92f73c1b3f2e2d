import { jsonMembers, type Span } from 'latchkey-mcp/json';
import { readMessage, type Message } from 'latchkey-mcp/raw-message';

/** Makes a message from `value`, with `jsonrpc` added. */
export function madeMessage(value: object): Message {
  return readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...value })));
}

/** The JSON text of a request's id, for its answer. */
export function idOf({ id = 'null' }: Message): string {
  return id;
}

/**
 * `bytes` with the member at `path` set to the JSON text `json`. Missing objects on the path are created. All other bytes
 * stay the same.
 */
export function withMember(bytes: Buffer, path: readonly string[], json: string): Buffer {
  const { start, end, text } = edit(bytes, { start: 0, end: bytes.length }, path, json);
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(text), bytes.subarray(end)]);
}

function edit(
  bytes: Buffer,
  span: Span,
  path: readonly string[],
  json: string,
): Span & { text: string } {
  const [name = '', ...rest] = path;
  const members = jsonMembers(bytes, span);
  const value = members?.get(name);
  if (value) return rest.length > 0 ? edit(bytes, value, rest, json) : { ...value, text: json };
  const made = rest.reduceRight((inner, key) => `{${JSON.stringify(key)}:${inner}}`, json);
  const member = `${JSON.stringify(name)}:${made}`;
  if (!members) return { ...span, text: `{${member}}` };
  const at = bytes.indexOf('{', span.start) + 1;
  return { start: at, end: at, text: members.size > 0 ? `${member},` : member };
}
