import { stringAt, type Message } from './message.ts';

const key = 'io.modelcontextprotocol/protocolVersion';

/**
 * The protocol version that a message of the modern era carries in its `_meta`; `undefined` for one
 * of the era before, which agrees on a version once, in `initialize`.
 *
 * MCP 2026-07-28 basic
 */
export function modernVersion(message: Message): string | undefined {
  if (message.method === undefined) return undefined;
  // A message passes many who ask, and its bytes never change.
  if (message.version === undefined) message.version = read(message) ?? null;
  return message.version ?? undefined;
}

function read(message: Message): string | undefined {
  return message.bytes.includes(key) ? stringAt(message, 'params', '_meta', key) : undefined;
}
