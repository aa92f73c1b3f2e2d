import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { bodyOf, countedServer } from './counted-server.ts';
import { faultMcp } from './fault-mcp.ts';
import { proxyProcess, type Answer } from './proxy-process.ts';
import { patient } from './patient.ts';

/** The forms in which a server answers. */
export const kinds = ['json', 'sse'] as const;
type Kind = (typeof kinds)[number];

/** A server that does not answer tool calls until `goOn`, and a proxy in front of it. */
export async function stalled(kind: Kind, env: Record<string, string> = {}) {
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
    /** Sends a call that stays unanswered until `goOn`. */
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

/** Calls both kinds of server, which say nothing for `silenceMs`, and expects that each call is waited for, sent once and answered once. */
export async function expectPatience(silenceMs: number): Promise<void> {
  await using json = await stalled('json');
  await using sse = await stalled('sse');
  const both = [json, sse];
  for (const { call } of both) {
    call(100, 'act');
    call(101, 'read');
  }
  await expect.poll(() => both.map(({ waiting }) => waiting.length), patient).toEqual([2, 2]);
  await delay(silenceMs);
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
}
