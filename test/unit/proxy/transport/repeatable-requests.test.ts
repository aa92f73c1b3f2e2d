import { expect, test } from 'vitest';
import { readMessage } from '#proxy/jsonrpc/message';
import { repeatableRequests } from '#proxy/transport/repeatable-requests';

const message = (value: object) => readMessage(Buffer.from(JSON.stringify({ id: 1, ...value })));
const call = (name: string) => message({ method: 'tools/call', params: { name } });
const list = (cursor?: string) => message({ method: 'tools/list', params: { cursor } });
const tools = (...all: object[]) => message({ result: { tools: all } });

test('repeatable requests: those that only read are, and a call of an unknown tool is not', () => {
  const requests = repeatableRequests();

  expect(requests.has(message({ method: 'resources/read' }))).toBe(true);
  expect(requests.has(message({ method: 'company/launch' }))).toBe(false);
  expect(requests.has(call('read'))).toBe(false);
});

test('repeatable requests: a call is if the last list says its tool is read-only or idempotent', () => {
  const requests = repeatableRequests();
  requests.learn(
    list(),
    tools(
      { name: 'read', annotations: { readOnlyHint: true } },
      { name: 'put', annotations: { idempotentHint: true } },
      { name: 'send', annotations: { readOnlyHint: 'yes' } },
    ),
  );
  requests.learn(list('2'), tools({ name: 'more', annotations: { readOnlyHint: true } }));

  expect(['read', 'put', 'send', 'more'].map((name) => requests.has(call(name)))).toEqual([
    true,
    true,
    false,
    true,
  ]);

  requests.learn(list(), tools({ name: 'read' }));
  expect(['read', 'more'].some((name) => requests.has(call(name)))).toBe(false);
});
