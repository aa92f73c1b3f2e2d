import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { answerResult, consoleCalls, listTools, toResultView } from '#server/console/call-server';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';

const asker = {
  userId: 'user_dana',
  organization: 'acme',
  server: 'sales',
  address: '::1',
  requestId: 'r-1',
};
const handle = vi.fn<(request: GatewayRequest) => Promise<GatewayAnswer>>();
const callServer = consoleCalls({ handle });
const answering = (...bodies: GatewayAnswer['body'][]) => {
  for (const body of bodies) {
    handle.mockResolvedValueOnce({ status: 200, headers: {}, ...(body && { body }) });
  }
};

async function* chunks(...parts: string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

beforeEach(() => {
  vi.useFakeTimers();
  handle.mockReset();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a call reaches the gateway as the person, and carries no credential', async () => {
  answering('{}');
  await callServer({ ...asker, method: 'tools/call', params: { name: 'query' } });

  const request = handle.mock.lastCall?.[0];
  expect(request).toMatchObject({
    proved: { type: 'person', userId: 'user_dana' },
    method: 'POST',
    rawHeaders: [],
  });
  expect(JSON.parse(String(await request?.readBody()))).toEqual({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'query' },
  });
});

test('the list of tools is read for a page, and is no call of the person', async () => {
  answering('{"result":{"tools":[]}}', '{}');
  await listTools(asker, callServer);
  await callServer({ ...asker, method: 'tools/call', params: { name: 'query' } });

  const asked = handle.mock.calls.map(([{ isForPage }]) => isForPage);
  expect(asked).toEqual([true, undefined]);
});

describe('an answer', () => {
  const answer = () => callServer({ ...asker, method: 'ping', params: {} });

  test.each([
    ['text', '{"a":1}'],
    ['bytes', Buffer.from('{"a":1}')],
    ['a stream', chunks('{"a"', ':1}')],
  ])('is read as %s', async (_name, body) => {
    answering(body);

    expect(await answer()).toEqual({ outcome: 'answered', text: '{"a":1}' });
  });

  test('over the size limit is given up, and its call ended', async () => {
    answering(chunks('x'.repeat(1_000_000), 'x'.repeat(100_000), 'x'.repeat(100_000)));

    expect(await answer()).toEqual({ outcome: 'too-large' });
    expect(handle.mock.lastCall?.[0].gone.aborted).toBe(true);
  });

  test('that does not arrive within thirty seconds is given up', async () => {
    handle.mockReturnValueOnce(new Promise(() => {}));
    const waiting = answer();
    await vi.advanceTimersByTimeAsync(30_000);

    expect(await waiting).toEqual({ outcome: 'late' });
    expect(handle.mock.lastCall?.[0].gone.aborted).toBe(true);
  });
});

test('all pages of a list of tools are read', async () => {
  answering(
    '{"result":{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"2"}}',
    '{"result":{"tools":[{"name":"b"}]}}',
  );
  const list = await listTools(asker, callServer);

  expect(list).toMatchObject({ outcome: 'tools', tools: [{ name: 'a' }, { name: 'b' }] });
});

test('an endless list is read up to ten pages', async () => {
  handle.mockImplementation(async () => ({
    status: 200,
    headers: {},
    body: '{"result":{"tools":[],"nextCursor":"again"}}',
  }));
  await listTools(asker, callServer);

  expect(handle).toHaveBeenCalledTimes(10);
});

test.each([
  ['the agent is offline', 'The agent is offline.'],
  ['Wait a minute!', 'Wait a minute!'],
  [' ', 'The server responded with an error without a message.'],
])(
  'an error with the message “%s” is shown as a sentence, with its code apart',
  (message, sentence) => {
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32000, message } });
    const result = answerResult({ outcome: 'answered', text });

    expect(result).toEqual({ outcome: 'error', message: sentence, code: -32000 });
  },
);

test.each([
  ['no JSON', 'not JSON'],
  ['[]', 'not a JSON-RPC response'],
])('the answer %s is a readable error', (text, words) => {
  const result = answerResult({ outcome: 'answered', text });

  expect(result).toEqual({ outcome: 'error', message: expect.stringContaining(words) });
});

test('a result is shown part by part, and of a long one only its beginning', () => {
  const { parts, isError } = toResultView({
    outcome: 'result',
    result: {
      content: [
        { type: 'text', text: 'x'.repeat(30_000) },
        { type: 'image', data: 'aGk=' },
      ],
      structuredContent: { rows: 1 },
      isError: true,
    },
  });

  expect(isError).toBe(true);
  expect(parts.map(({ title, isCut }) => [title, isCut])).toEqual([
    ['Text', true],
    ['Content of type image', false],
    ['Structured content', false],
  ]);
  expect(parts[0]?.text).toHaveLength(20_000);
});
