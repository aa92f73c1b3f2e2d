import { expect, test } from 'vitest';
import { AnswerWatch } from '#server/gateway/answer-watch';

function isError(mediaType: string, ...chunks: string[]): boolean {
  const watch = new AnswerWatch(mediaType);
  for (const chunk of chunks) watch.push(Buffer.from(chunk));
  return watch.isError();
}

const json = 'application/json';
const events = 'text/event-stream';
const failing = '{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}';
const refusing = '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}';

test.each([
  ['a tool that failed', failing],
  ['an error of the protocol', refusing],
])('%s is an error, whole and in pieces', (_name, text) => {
  expect(isError(json, text)).toBe(true);
  expect(isError(json, text.slice(0, 40), text.slice(40))).toBe(true);
  expect(isError(events, 'event: message\ndata: ', text, '\n\n')).toBe(true);
});

test('an error at the end of a stream is found behind the notifications', () => {
  const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';

  expect(isError(events, `data: ${progress}\n\n`, `data: ${failing}\n\n`)).toBe(true);
});

test.each([
  ['a result', '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'],
  ['a tool that says it did not fail', failing.replace('true', 'false')],
  [
    'what a tool says about errors elsewhere',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"isError":true,"error":{"code":1}}}}',
  ],
  [
    'a text that quotes an error',
    `{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":${JSON.stringify(failing)}}]}}`,
  ],
  ['what is no message', '{"isError":true}'],
  ['nothing', ''],
])('%s is no error', (_name, text) => {
  expect(isError(json, text)).toBe(false);
  expect(isError(events, `data: ${text}\n\n`)).toBe(false);
});

test('a long answer is no error, and is not kept', () => {
  expect(isError(json, failing.replace('[]', `["${'x'.repeat(70_000)}"]`))).toBe(false);
});
