import { describe, expect, test } from 'vitest';

import type { GatewayAnswer } from '#server/gateway/request';
import { hideTools } from '#server/gateway/tool-list';
import { eventStream, type ScriptedAnswer } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';

const list = (...names: string[]) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    result: { tools: names.map((name) => ({ name, inputSchema: {} })), nextCursor: 'c', x: 1 },
  });

/** An answer to `tools/list` without the hidden tools. */
function without(answer: ScriptedAnswer, hidden: readonly string[]): Promise<GatewayAnswer> {
  const filter = hideTools(hidden);
  return replied(answer, { filters: filter ? [filter] : [], isSingle: true, isHeldWhole: true });
}

const parsed = async (answer: GatewayAnswer): Promise<unknown> =>
  JSON.parse(await bodyText(answer));

describe('hidden tools are left out, and everything else of the answer stays', () => {
  test.each([
    ['of JSON', 'application/json', list('read', 'drop', 'write')],
    ['of an event stream', 'text/event-stream', eventStream(list('read', 'drop', 'write'))],
  ])('%s', async (_, mediaType, text) => {
    const answer = await without({ mediaType, text }, ['drop', 'unknown']);

    expect(answer).toMatchObject({ status: 200, headers: { 'Content-Type': 'application/json' } });
    expect(await parsed(answer)).toEqual(JSON.parse(list('read', 'write')));
  });
});

test('a tool whose hidden name is escaped is left out as well', async () => {
  const text = list('read', 'drop').replace('"drop"', '"dr\\u006fp"');

  expect(await parsed(await without({ text }, ['drop']))).toEqual(JSON.parse(list('read')));
});

test('an error is passed on', async () => {
  const error = { jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'bad cursor' } };

  expect(await parsed(await without({ text: JSON.stringify(error) }, ['drop']))).toEqual(error);
});

describe('a list that cannot be parsed is refused rather than passed on with hidden tools', () => {
  test.each([
    ['that is no JSON', 'drop'],
    ['that is cut short', list('drop').slice(0, -2)],
    ['that is a list of messages', `[${list('drop')}]`],
    ['whose tools are an object', '{"jsonrpc":"2.0","id":1,"result":{"tools":{"drop":1}}}'],
    ['that names a tool twice', list('drop').replace('"name"', '"name":"read","name"')],
    ['whose tools have no names', '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"title":"drop"}]}}'],
    ['whose tools are missing', '{"jsonrpc":"2.0","id":1,"result":{}}'],
    ['that is empty', ''],
  ])('%s', async (_, text) => {
    await expect(without({ text }, ['drop'])).rejects.toMatchObject({
      code: 'unreadable_tools',
    });
  });
});

test('ids and numbers beyond 2^53, their spelling and all other bytes stay unchanged', async () => {
  const read =
    '{ "name": "read",\t"inputSchema": {"maximum": 9007199254740993, "multipleOf": 1.50} }';
  const write = '{"name":"wr\\u0069te","_meta":{"a":[{"name":"drop"}]}}';
  const around = (...tools: string[]) =>
    `{"result": {"tools": [${tools.join(',')} ], "ttlMs": 1e3}, "id":12345678901234567890,"jsonrpc":"2.0"}`;
  const text = around(read, '{"name":"drop","inputSchema":{}}', write);

  const answer = await without({ text }, ['drop']);

  expect(await bodyText(answer)).toBe(around(read, write).replace(' ],', '],'));
});

test('a list whose tools are all hidden is empty', async () => {
  const answer = await without({ text: list('drop') }, ['drop']);

  expect(await parsed(answer)).toEqual(JSON.parse(list()));
});

test('117: a list of 10,000 tools is filtered, and one with more is unreadable', async () => {
  const names = Array.from({ length: 10_000 }, (_, at) => `tool-${at}`);
  const hidden = names.slice(1);

  expect(await parsed(await without({ text: list(...names) }, hidden))).toEqual(
    JSON.parse(list('tool-0')),
  );
  await expect(without({ text: list(...names, 'one-more') }, hidden)).rejects.toMatchObject({
    code: 'unreadable_tools',
    details: { detail: expect.stringContaining('more than 10000 tools') },
  });
});
