import { textAt, messageOf, type Message } from './message.ts';

/** The response `result` (JSON text) to the request of this id (JSON text). */
export function resultTo(id: string, result: string): Message {
  return messageOf(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
}

export function errorTo(id: string, code: number, message: string): Message {
  const error = JSON.stringify({ code, message });
  return messageOf(`{"jsonrpc":"2.0","id":${id},"error":${error}}`);
}

/** The same error under another id. */
export function sameErrorTo(id: string, response: Message): Message {
  const error = textAt(response, 'error') ?? '{"code":-32603,"message":"no answer"}';
  return messageOf(`{"jsonrpc":"2.0","id":${id},"error":${error}}`);
}
