import type { Span } from 'latchkey-mcp/json';
import { replaced } from 'latchkey-mcp/json-edit';
import { readMessage, type Message } from 'latchkey-mcp/raw-message';

/** `message` with other JSON text at some spans; every other byte stays. */
export function spliced(
  message: Message,
  changes: readonly { span: Span | undefined; text: string }[],
): Message {
  const edits = changes.flatMap(({ span, text }) => (span ? [{ span, text }] : []));
  return edits.length === 0 ? message : readMessage(replaced(message.bytes, edits));
}
