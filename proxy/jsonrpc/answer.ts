import { readMessage, type Message } from './message.ts';

/** What went wrong with a request, in words for the person in front of the assistant. */
export type Failure = { code: number; message: string; data?: Record<string, unknown> };

/** The answer that tells the asker of `id` (JSON text, or `null` when unknown) about a failure. */
export function errorAnswer(id: string, { code, message, data }: Failure): Message {
  const error = JSON.stringify({ code, message, ...(data && { data }) });
  return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${id},"error":${error}}`));
}

/** `answer` under another id: a server may lose the digits of a large one, or not know it. */
export function answerTo(id: string, answer: Message): Message {
  if (answer.id === id) return answer;
  const name = answer.members.has('result') ? 'result' : 'error';
  const { start, end } = answer.members.get(name) ?? { start: 0, end: 0 };
  const head = Buffer.from(`{"jsonrpc":"2.0","id":${id},"${name}":`);
  return readMessage(Buffer.concat([head, answer.bytes.subarray(start, end), Buffer.from('}')]));
}
