import { afterAll, beforeEach, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { bothErasAnswer, recordingUpstream } from '#support/upstreams/recording-upstream';

/** Speaks both eras, so that nothing but the gateway's own checks stands before it. */
const upstream = await recordingUpstream();
upstream.answer = bothErasAnswer;
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { endpoint, key } = gateway;
await gateway.command('server', 'hide-tools', 'acme/fixture', '--tool', 'secret');
await mcpCall(endpoint, { key });
await mcpCall(endpoint, { key, ...modern('ping') });

beforeEach(() => void upstream.requests.splice(0));

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** What the upstream was asked, but for what the gateway asks for itself. */
const reached = () =>
  upstream.requests
    .map(({ body }) => body.toString())
    .filter((body) => !/"(?:server\/discover|initialize|notifications\/initialized)"/.test(body));

const older = {
  'mcp-protocol-version': '2025-11-25',
  accept: 'application/json, text/event-stream',
};

/** The same request without the headers of an era, in the legacy era, and in the modern era. */
function inEveryEra(method: string, params: Record<string, unknown>) {
  const body = rpc(method, params);
  return [
    ['plain', { body }],
    ['legacy', { body, headers: older }],
    ['modern', modern(method, params)],
  ] as const;
}

const members: readonly [method: string, member: string, params: Record<string, unknown>][] = [
  ['tools/call', 'name', { arguments: {} }],
  ['prompts/get', 'name', {}],
  ['resources/read', 'uri', {}],
  ['resources/subscribe', 'uri', {}],
  ['resources/unsubscribe', 'uri', {}],
  ['tasks/get', 'taskId', {}],
  ['tasks/update', 'taskId', {}],
  ['tasks/cancel', 'taskId', {}],
  ['tasks/result', 'taskId', {}],
  ['tools/call', 'requestState', { name: 'echo' }],
  ['prompts/get', 'requestState', { name: 'echo' }],
  ['resources/read', 'requestState', { uri: 'file:///a' }],
  ['tools/list', 'cursor', {}],
  ['prompts/list', 'cursor', {}],
  ['resources/list', 'cursor', {}],
  ['resources/templates/list', 'cursor', {}],
];
const noStrings: readonly unknown[] = [
  ['secret'],
  [['secret']],
  7,
  true,
  null,
  { toString: 'secret' },
  { 0: 'secret', length: 1 },
];

test.for(members)(
  '96: parameters: %s with a %s that is not a string gets -32602 and is not forwarded',
  async ([method, member, params]) => {
    for (const value of noStrings) {
      for (const [era, call] of inEveryEra(method, { ...params, [member]: value })) {
        // The modern era does not know this method at all.
        if (era === 'modern' && method === 'tasks/result') continue;
        const answer = await mcpCall(endpoint, { key, ...call });
        const status = era === 'modern' ? 400 : 200;

        expect([era, value, answer.status, answer.errorCode]).toEqual([era, value, status, -32602]);
        expect(JSON.parse(answer.text)).toMatchObject({ id: 1 });
      }
    }
    expect(reached()).toEqual([]);
  },
);

test.for(['["secret"]', '[{"name":"secret"}]', '[]', '"secret"', '7', 'true', 'null'])(
  '96: parameters: params that are not an object get -32602 and are not forwarded: %s',
  async (params) => {
    for (const method of ['tools/call', 'tools/list', 'resources/read', 'initialize', 'ping']) {
      const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
      const { headers } = modern(method);
      for (const call of [{ body }, { body, headers: older }, { body, headers }]) {
        const answer = await mcpCall(endpoint, { key, ...call });

        expect([method, answer.errorCode]).toEqual([method, -32602]);
      }
    }
    expect(reached()).toEqual([]);
  },
);

test('96: parameters: a call without a tool name, or with it elsewhere, gets -32602', async () => {
  for (const params of [{}, { arguments: { name: 'secret' } }, { tool: 'secret' }]) {
    for (const [era, call] of inEveryEra('tools/call', params)) {
      const answer = await mcpCall(endpoint, { key, ...call });

      expect([era, answer.errorCode]).toEqual([era, -32602]);
    }
  }
  expect(reached()).toEqual([]);
});

test('96: parameters: a related task whose id is not a string gets -32602', async () => {
  for (const taskId of noStrings) {
    const about = { 'io.modelcontextprotocol/related-task': { taskId } };
    for (const body of [
      rpc('tools/call', { name: 'echo', _meta: about }),
      JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { _meta: about },
      }),
    ]) {
      const answer = await mcpCall(endpoint, { key, body, headers: older });

      expect([taskId, answer.errorCode]).toEqual([taskId, -32602]);
    }
  }
  expect(reached()).toEqual([]);
});

test('96: parameters: calls with string members, and of tools that are not hidden, are served', async () => {
  for (const [era, call] of inEveryEra('tools/call', { name: 'echo', arguments: { name: [1] } })) {
    const answer = await mcpCall(endpoint, { key, ...call });

    expect([era, answer.status, answer.errorCode]).toEqual([era, 200, undefined]);
  }
  expect(reached()).toHaveLength(3);
});

const requestMethods = [
  'initialize',
  'ping',
  'tools/list',
  'tools/call',
  'resources/read',
  'prompts/get',
  'completion/complete',
  'logging/setLevel',
  'tasks/get',
  'tasks/cancel',
  'server/discover',
  'subscriptions/listen',
];

test.for(requestMethods)(
  '97: notification: %s without an id gets 400 with -32600 and is not forwarded',
  async (method) => {
    const params = { name: 'echo', uri: 'file:///a', taskId: 'raw', requestState: 'raw' };
    const { body, headers } = modern(method, params);
    const newer = {
      body: JSON.stringify({ ...JSON.parse(body), id: undefined }),
      headers:
        method === 'tasks/cancel' || method === 'tasks/get'
          ? { ...headers, 'mcp-name': 'raw' }
          : method === 'resources/read'
            ? { ...headers, 'mcp-name': 'file:///a' }
            : headers,
    };
    const plain = JSON.stringify({ jsonrpc: '2.0', method, params });
    for (const call of [{ body: plain }, { body: plain, headers: older }, newer]) {
      const answer = await mcpCall(endpoint, { key, ...call });

      expect([answer.status, answer.errorCode]).toEqual([400, -32600]);
    }
    expect(reached()).toEqual([]);
  },
);

/** A notification of each era with these members of `params`. */
function notified(method: string, params: Record<string, unknown>) {
  const text = JSON.stringify({ jsonrpc: '2.0', method, params });
  const { body, headers } = modern(method, params);
  const newer = JSON.stringify({ ...JSON.parse(body), id: undefined });
  return [{ body: text }, { body: text, headers: older }, { body: newer, headers }];
}

test('97: notification: a request state that was not sealed for its sender is not forwarded', async () => {
  for (const method of ['notifications/cancelled', 'notifications/progress', 'notifications/x']) {
    for (const call of notified(method, { requestId: 1, requestState: 'raw' })) {
      const answer = await mcpCall(endpoint, { key, ...call });

      expect([answer.status, answer.errorCode]).toEqual([400, -32602]);
    }
  }
  expect(reached()).toEqual([]);
});

test('97: notification: a task id never reaches an upstream as its sender wrote it', async () => {
  const about = { 'io.modelcontextprotocol/related-task': { taskId: 'raw' } };
  for (const params of [{ taskId: 'raw' }, { _meta: about }, { taskId: 'raw', _meta: about }]) {
    for (const method of ['notifications/tasks/status', 'notifications/progress']) {
      const body = JSON.stringify({ jsonrpc: '2.0', method, params });
      await mcpCall(endpoint, { key, body, headers: older });
    }
  }

  expect(reached()).toHaveLength(6);
  expect(reached().join('\n')).not.toContain('"raw"');
  // The id is the same each time, so that the upstream knows which task of the caller is meant.
  expect(
    new Set(
      reached()
        .join()
        .match(/"[\w-]{22}\.raw"/g),
    ),
  ).toHaveProperty('size', 1);
});
