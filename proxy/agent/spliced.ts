import { jsonMembers, type Span } from '#jsonrpc/json-members';
import { readMessage, type Message } from '#jsonrpc/message';

/** Where the value at `path` of a message stands; `undefined` when there is none. */
export function spanAt({ bytes, members }: Message, ...path: string[]): Span | undefined {
  let within: ReadonlyMap<string, Span> | undefined = members;
  for (const [index, name] of path.entries()) {
    const span: Span | undefined = within?.get(name);
    if (index === path.length - 1) return span;
    within = span && jsonMembers(bytes, span);
  }
  return undefined;
}

/** `message` with other JSON text at some places; every other byte is its own. */
export function spliced(
  message: Message,
  changes: readonly { span: Span | undefined; text: string }[],
): Message {
  const known = changes
    .filter((change): change is { span: Span; text: string } => change.span !== undefined)
    .sort((a, b) => a.span.start - b.span.start);
  if (known.length === 0) return message;
  const parts: Buffer[] = [];
  let at = 0;
  for (const { span, text } of known) {
    parts.push(message.bytes.subarray(at, span.start), Buffer.from(text));
    at = span.end;
  }
  return readMessage(Buffer.concat([...parts, message.bytes.subarray(at)]));
}
