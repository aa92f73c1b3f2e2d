import { stringAt, type Message } from './message.ts';

const key = 'io.modelcontextprotocol/protocolVersion';

/**
 * The protocol version that a message of the modern era carries in its `_meta`; `undefined` for one
 * of the era before, which agrees on a version once, in `initialize`.
 *
 * MCP 2026-07-28 basic
 */
export function modernVersion(message: Message): string | undefined {
  if (message.method === undefined || !message.bytes.includes(key)) return undefined;
  return stringAt(message, 'params', '_meta', key);
}
