import { expect, test, vi } from 'vitest';
import { proxyProcess, type Answer } from '#support/proxy-process';
import type { Said } from '#support/scripted-upstream';
import { sseServer } from '#support/sse-server';
import { patient } from '#support/patient';

const env = { LATCHKEY_API_KEY: `mcp_${'k'.repeat(36)}` };

const call = (id: string, name: string) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: {} },
});

/** A server of 2024-11-05 whose tool `hold` never answers. */
async function server() {
  const made = await sseServer({
    answer({ id, method, params }: Said) {
      if (method === 'initialize')
        return { id, result: { protocolVersion: '2024-11-05', capabilities: { tools: {} } } };
      return JSON.stringify(params ?? {}).includes('"hold"') ? undefined : { id, result: {} };
    },
  });
  const posted = (method: string) => made.posted.filter((message) => message.method === method);
  return Object.assign(made, { called: () => posted('tools/call'), saidBy: posted });
}

test('HTTP+SSE server: a stream interrupted under 64 calls gives one answer each, and all work after it', async () => {
  await using sse = await server();
  await using proxy = proxyProcess({ args: [sse.url.href], env });
  await proxy.handshake();
  const numbers = Array.from({ length: 64 }, (_, n) => n);
  proxy.send(numbers.map((n) => JSON.stringify(call(`held ${n}`, 'hold'))).join('\n'));
  await vi.waitFor(() => expect(sse.called()).toHaveLength(64), patient);

  sse.breakOff(true);
  const failed: Answer[] = [];
  while (failed.length < 64) failed.push(await proxy.next());
  proxy.send(numbers.map((n) => JSON.stringify(call(`again ${n}`, 'act'))).join('\n'));
  const after: Answer[] = [];
  while (after.length < 64) after.push(await proxy.next());

  expect(new Set(failed.map(({ id }) => id)).size).toBe(64);
  for (const { error } of failed) expect(error?.data).toMatchObject({ outcome: 'unknown' });
  expect(new Set(after.map(({ id }) => id)).size).toBe(64);
  expect(after.filter(({ result }) => result)).toHaveLength(64);
  expect(sse.called()).toHaveLength(128);
  expect(sse.saidBy('initialize')).toHaveLength(2);
  expect(proxy.unread()).toEqual([]);
});

test('HTTP+SSE server: a cancelled call is cancelled there, and its late answer is dropped', async () => {
  await using sse = await server();
  await using proxy = proxyProcess({ args: [sse.url.href], env });
  await proxy.handshake();
  proxy.send(call('held', 'hold'));
  await vi.waitFor(() => expect(sse.called()).toHaveLength(1), patient);

  const params = { requestId: 'held' };
  proxy.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
  await vi.waitFor(() => expect(sse.saidBy('notifications/cancelled')).toHaveLength(1), patient);
  sse.say({ id: sse.called()[0]?.id, result: {} });
  const { result } = await proxy.request('ping');

  expect(result).toEqual({});
  expect(proxy.unread()).toEqual([]);
});

test('HTTP+SSE server: at the end of stdin an open call gets one answer, and the proxy exits with 0', async () => {
  await using sse = await server();
  await using proxy = proxyProcess({ args: [sse.url.href], env });
  await proxy.handshake();
  proxy.send(call('held', 'hold'));
  await vi.waitFor(() => expect(sse.called()).toHaveLength(1), patient);

  proxy.hangUp();
  const { id, error } = await proxy.next();

  expect({ id, data: error?.data }).toEqual({
    id: 'held',
    data: expect.objectContaining({ outcome: 'unknown' }),
  });
  expect(await proxy.ended).toBe(0);
  expect(proxy.unread()).toEqual([]);
});
