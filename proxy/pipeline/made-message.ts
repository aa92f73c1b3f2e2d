import { readMessage, type Message } from '#jsonrpc/message';

/** A message of our own; `value` is it but for `jsonrpc`. */
export function madeMessage(value: object): Message {
  return readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...value })));
}
