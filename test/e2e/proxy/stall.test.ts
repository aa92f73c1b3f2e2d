import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { bodyOf, countedServer } from '#support/counted-server';
import { faultMcp } from '#support/fault-mcp';
import { proxyProcess, type Answer } from '#support/proxy-process';

const kinds = ['json', 'sse'] as const;
type Kind = (typeof kinds)[number];

/** A server that takes calls of tools and says nothing about them until told to, and an assistant at it. */
async function stalled(kind: Kind, env: Record<string, string> = {}) {
  const waiting: { id: unknown; response: ServerResponse }[] = [];
  const heard: string[] = [];
  const { handle } = faultMcp(kind, (what) => heard.push(what));
  const server = await countedServer(async (request, response) => {
    const body = request.method === 'POST' ? await bodyOf(request) : '';
    const { id, method }: Answer = JSON.parse(body || '{}');
    if (method !== 'tools/call') return handle(request, response, body);
    heard.push(method);
    waiting.push({ id, response });
    response.on('close', () => heard.push(response.writableFinished ? 'answered' : 'closed'));
    if (kind === 'sse') response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (kind === 'sse') response.write(': working\n\n');
  });
  const proxy = proxyProcess({
    args: [`${server.origin}/mcp`],
    env: { LATCHKEY_API_KEY: `mcp_${'k'.repeat(36)}`, ...env },
  });
  await proxy.handshake();
  await proxy.request('tools/list');
  return {
    proxy,
    heard,
    waiting,
    /** Sends a call that is not answered now. */
    call: (id: number, name: string) =>
      proxy.send({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {} } }),
    goOn() {
      for (const { id, response } of waiting) {
        const text = JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } });
        if (kind === 'sse') response.end(`data: ${text}\n\n`);
        else response.writeHead(200, { 'content-type': 'application/json' }).end(text);
      }
    },
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

test(
  'two minutes of silence, JSON and streams: every call is waited for, asked once and answered once',
  { timeout: 180_000 },
  async () => {
    await using json = await stalled('json');
    await using sse = await stalled('sse');
    const both = [json, sse];
    for (const { call } of both) {
      call(100, 'act');
      call(101, 'read');
    }
    await expect.poll(() => both.map(({ waiting }) => waiting.length)).toEqual([2, 2]);
    await delay(120_000);
    const early = both.map(({ proxy }) => proxy.unread().length);
    const meanwhile = await Promise.all(both.map(async ({ proxy }) => proxy.request('tools/list')));
    for (const run of both) run.goOn();
    const answers = await Promise.all(
      both.map(async ({ proxy }) => [await proxy.next(), await proxy.next()]),
    );
    const after = await Promise.all(both.map(async ({ proxy }) => proxy.request('tools/list')));

    expect(early).toEqual([0, 0]);
    expect([...meanwhile, ...after].every(({ result }) => result !== undefined)).toBe(true);
    for (const said of answers) {
      expect(said.map(({ id }) => String(id)).toSorted()).toEqual(['100', '101']);
      expect(said.every(({ result }) => result !== undefined)).toBe(true);
    }
    expect(both.map(({ waiting }) => waiting.length)).toEqual([2, 2]);
    expect(both.map(({ proxy }) => proxy.unread())).toEqual([[], []]);
  },
);

test.each(kinds)(
  'a server (%s) that is silent for longer than --patience: one error a call, and it is told',
  async (kind) => {
    await using run = await stalled(kind, { LATCHKEY_PATIENCE: '2' });
    run.call(100, 'act');
    run.call(101, 'read');
    const said = [await run.proxy.next(), await run.proxy.next()];
    await expect
      .poll(() => run.heard.filter((what) => what === 'notifications/cancelled'))
      .toHaveLength(2);
    await expect.poll(() => run.heard.filter((what) => what === 'closed')).toHaveLength(2);
    run.goOn();
    const after = await run.proxy.request('tools/list');

    expect(said.map(({ id }) => String(id)).toSorted()).toEqual(['100', '101']);
    for (const { error } of said)
      expect(error).toMatchObject({
        message: expect.stringContaining('the server said nothing for 2 s'),
        data: { outcome: 'unknown' },
      });
    expect(after.result).toBeDefined();
    expect(run.waiting).toHaveLength(2);
    expect(run.proxy.unread()).toEqual([]);
  },
);
