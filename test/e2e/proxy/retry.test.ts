import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { bodyOf, countedServer } from '#support/counted-server';
import { proxyProcess } from '#support/proxy-process';

type Message = { id?: number; method: string; params?: { name?: string } };

const tools = [
  { name: 'read', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
  { name: 'send', inputSchema: { type: 'object' } },
];

/** A server that does `trouble` instead of answering, as often as told, and counts what ran. */
async function troubled(
  trouble: (response: ServerResponse, message: Message) => unknown,
  times: number,
) {
  let left = times;
  const asked: string[] = [];
  const server = await countedServer(async (request, response) => {
    const message: Message = JSON.parse((await bodyOf(request)) || '{"method":"GET"}');
    asked.push(message.params?.name ?? message.method);
    if (message.params?.name !== undefined && left-- > 0) return trouble(response, message);
    const result = message.method === 'tools/list' ? { tools } : { content: [] };
    return response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
  });
  const proxy = proxyProcess({
    args: [`${server.origin}/mcp`],
    env: { LATCHKEY_API_KEY: 'mcp_0123' },
  });
  await proxy.request('tools/list');
  asked.length = 0;
  return {
    asked,
    call: async (name: string) => proxy.request('tools/call', { name, arguments: {} }),
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

test('retry: Retry-After of the server is honoured, even for a call that changes things', async () => {
  await using run = await troubled(
    (response) => response.writeHead(429, { 'retry-after': '1' }).end(),
    2,
  );

  expect((await run.call('send')).result).toEqual({ content: [] });
  expect(run.asked).toEqual(['send', 'send', 'send']);
});

test('retry: a Retry-After beyond the idle timeout is an error that says how long', async () => {
  await using run = await troubled(
    (response) => response.writeHead(503, { 'retry-after': '3600' }).end(),
    1,
  );

  const { error } = await run.call('send');

  expect(error?.message).toContain('try again in 3600 s');
  expect(error?.data).toEqual({ status: 503, retryAfterSeconds: 3600 });
});

test.each<[string, (response: ServerResponse) => unknown]>([
  ['a connection cut before the answer', (response) => response.destroy()],
  ['a 502', (response) => response.writeHead(502).end()],
  ['a 504', (response) => response.writeHead(504).end()],
])(
  'retry: %s: a read-only tool is called again, and one that acts runs once',
  async (_, trouble) => {
    await using reading = await troubled(trouble, 1);
    await using acting = await troubled(trouble, 1);

    expect((await reading.call('read')).result).toEqual({ content: [] });
    const { error } = await acting.call('send');

    expect(reading.asked).toEqual(['read', 'read']);
    expect(acting.asked).toEqual(['send']);
    expect(error).toMatchObject({
      message: expect.stringContaining('it is unknown whether the request ran'),
      data: { outcome: 'unknown' },
    });
  },
);

test('retry: a stream that ends without the answer leaves the outcome of a call unknown', async () => {
  await using run = await troubled((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': working\n\n');
  }, 1);

  expect((await run.call('send')).error?.data).toEqual({ status: 200, outcome: 'unknown' });
  expect(run.asked).toEqual(['send']);
});

test('retry: the error for a server that keeps failing says how often it was tried', async () => {
  await using run = await troubled((response) => response.writeHead(502).end(), 99);

  expect((await run.call('read')).error?.data).toEqual({ status: 502, attempts: 3 });
  expect(run.asked).toHaveLength(3);
});

test('retry: a cancelled call is not sent again', async () => {
  const refused = Promise.withResolvers<void>();
  await using run = await troubled((response) => {
    response.writeHead(429, { 'retry-after': '50' }).end(() => refused.resolve());
  }, 1);
  run.proxy.send({
    jsonrpc: '2.0',
    id: 99,
    method: 'tools/call',
    params: { name: 'send', arguments: {} },
  });
  await refused.promise;
  run.proxy.send({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 99 },
  });

  await run.proxy.request('ping');
  run.proxy.hangUp();

  expect(await run.proxy.ended).toBe(0);
  expect(run.asked.filter((name) => name === 'send')).toHaveLength(1);
});
