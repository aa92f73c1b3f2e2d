import { expect, test } from 'vitest';

import { toldEnd } from '#server/gateway/told-end';
import { UpstreamError } from '#server/gateway/upstream';

async function* lost(texts: readonly string[], error: Error): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
  throw error;
}

async function read(texts: readonly string[], error: Error, type = 'text/event-stream') {
  const answer = { status: 200, headers: { 'Content-Type': type }, body: lost(texts, error) };
  const { body } = toldEnd(answer, ({ code }) => `{"lost":"${code}"}`);
  let all = '';
  if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('no stream');
  for await (const chunk of body) all += Buffer.from(chunk).toString();
  return all;
}

const broken = new UpstreamError('broken', 'gone');
const told = 'event: message\ndata: {"lost":"broken"}\n\n';

test.each([
  ['before the first event', []],
  ['after an event', ['data: 1\n\n']],
  ['after an event in pieces', ['data: 1\n', '\n']],
  ['after an event with carriage returns', ['data: 1\r\n\r', '\n']],
])('a stream that is lost %s ends with words', async (_, texts) => {
  expect(await read(texts, broken)).toBe(texts.join('') + told);
});

test.each([
  ['inside an event', ['data: 1\n\nda'], broken, 'text/event-stream'],
  ['that is no stream of events', ['{}\n\n'], broken, 'application/json'],
  ['for another reason', ['data: 1\n\n'], new Error('other'), 'text/event-stream'],
])('an answer %s just breaks off', async (_, texts, error, type) => {
  await expect(read(texts, error, type)).rejects.toBe(error);
});
