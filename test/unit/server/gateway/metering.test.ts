import { expect, test, vi } from 'vitest';
import type { ReplyOptions } from '#server/gateway/reply';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';

/** Whether the call counts as an error when its answer comes in these pieces. */
async function isError(mediaType: string, ...chunks: string[]): Promise<boolean> {
  const finish = vi.fn<ReplyOptions['finish']>();
  await bodyText(await replied({ mediaType, text: chunks }, { finish }));
  return finish.mock.calls[0]?.[0] === 'tool-error';
}

const json = 'application/json';
const events = 'text/event-stream';
const failing = '{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}';
const refusing = '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}';

test.each([
  ['a tool that failed', failing],
  ['an error of the protocol', refusing],
])('%s is an error, whether it arrives whole or in pieces', async (_name, text) => {
  expect(await isError(json, text)).toBe(true);
  expect(await isError(json, text.slice(0, 40), text.slice(40))).toBe(true);
  expect(await isError(events, 'event: message\ndata: ', text, '\n\n')).toBe(true);
});

test('an error at the end of a stream is found after the notifications', async () => {
  const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';

  expect(await isError(events, `data: ${progress}\n\n`, `data: ${failing}\n\n`)).toBe(true);
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
])('%s is no error', async (_name, text) => {
  expect(await isError(json, text)).toBe(false);
  expect(await isError(events, `data: ${text}\n\n`)).toBe(false);
});

test('a long answer is no error, and is not stored', async () => {
  expect(await isError(json, failing.replace('[]', `["${'x'.repeat(70_000)}"]`))).toBe(false);
});
