import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test, vi } from 'vitest';
import { bodyOf, countedServer } from '#support/counted-server';
import { faultMcp } from '#support/fault-mcp';
import { movableServer } from '#support/movable-server';
import { proxyProcess, type Answer } from '#support/proxy-process';
import { patient } from '#support/patient';

const env = { LATCHKEY_API_KEY: `mcp_${'k'.repeat(36)}` };
const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };
const act = { name: 'act', arguments: { n: 1 } };

type Reply = (request: IncomingMessage, response: ServerResponse, id: unknown) => unknown;

/** A server with an ordinary handshake, which answers tool calls with `reply`. */
async function replying(reply: Reply, more: Record<string, string> = {}) {
  const called: string[] = [];
  const { handle } = faultMcp('json', () => undefined);
  const server = await countedServer(async (request, response) => {
    if (request.method === 'GET') return reply(request, response, undefined);
    const body = request.method === 'POST' ? await bodyOf(request) : '';
    const { id, method, params }: Answer & { params?: { name?: string } } = JSON.parse(
      body || '{}',
    );
    if (method === 'tools/call') {
      called.push(String(params?.name));
      return reply(request, response, id);
    }
    return handle(request, response, body);
  });
  const proxy = proxyProcess({ args: [`${server.origin}/mcp`], env: { ...env, ...more } });
  await proxy.handshake();
  await proxy.request('tools/list');
  return {
    proxy,
    called,
    seen: server.seen,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

const answerTo = (id: unknown, text = 'done') =>
  JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });
const progress = 'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n';

/** Breaks off in the middle of an answer. */
const half: Record<'JSON' | 'an event stream', Reply> = {
  JSON(_, response) {
    response.writeHead(200, { ...json, 'content-length': 900 }).write('{"jsonrpc":');
    setImmediate(() => response.destroy());
  },
  'an event stream'(_, response) {
    response.writeHead(200, events).write(progress);
    setImmediate(() => response.destroy());
  },
};

test.each(['JSON', 'an event stream'] as const)(
  'interrupted answer (%s): a read-only tool is called again; for others the outcome is unknown',
  async (kind) => {
    let times = 0;
    await using run = await replying((request, response, id) => {
      if (request.method === 'GET') return response.writeHead(405).end();
      times += 1;
      return times < 3
        ? half[kind](request, response, id)
        : response.writeHead(200, json).end(answerTo(id));
    });
    const acted = await run.proxy.request('tools/call', act);
    const read = await run.proxy.request('tools/call', { name: 'read', arguments: {} });

    expect(acted.error?.data).toEqual({ status: 200, outcome: 'unknown' });
    expect(read.result).toMatchObject({ content: [{ text: 'done' }] });
    expect(run.called).toEqual(['act', 'read', 'read']);
  },
);

test('interrupted stream: one with event ids is resumed, even if the server was away meanwhile', async () => {
  let posted = 0;
  let id: unknown;
  const { handle } = faultMcp('json', () => undefined);
  await using server = await movableServer(async (request, response) => {
    if (request.method === 'GET' && request.headers['last-event-id'] === '7')
      return response.writeHead(200, events).end(`id: 8\ndata: ${answerTo(id, 'resumed')}\n\n`);
    if (request.method !== 'POST') return response.writeHead(405).end();
    const body = await bodyOf(request);
    const asked: Answer = JSON.parse(body);
    if (asked.method === 'tools/call') {
      posted += 1;
      id = asked.id;
      return response.writeHead(200, events).write(`retry: 10\nid: 7\n${progress}`);
    }
    return handle(request, response, body);
  });
  await using proxy = proxyProcess({
    args: [`${server.origin}/mcp`],
    env: { ...env, LATCHKEY_LOG_LEVEL: 'debug' },
  });
  await proxy.handshake();
  const answer = proxy.request('tools/call', act);
  await vi.waitFor(() => expect(posted).toBe(1), patient);

  await server.stop();
  await vi.waitFor(() => expect(proxy.stderr()).toMatch(/not resumed/), patient);
  await server.start();

  expect((await answer).result).toMatchObject({ content: [{ text: 'resumed' }] });
  expect(posted).toBe(1);
});

test('interrupted stream: if the server has forgotten it, the outcome is reported as unknown at once', async () => {
  await using run = await replying((request, response) => {
    if (request.method === 'GET') return response.writeHead(404).end();
    return response.writeHead(200, events).end(`retry: 10\nid: 7\n${progress}`);
  });

  const { error } = await run.proxy.request('tools/call', act);

  expect(error?.data).toEqual({ status: 200, outcome: 'unknown' });
  expect(run.called).toEqual(['act']);
  expect(run.seen.filter(({ headers }) => headers['last-event-id'] === '7')).toHaveLength(1);
});

test('event stream: invalid JSON and events of other types do not keep the answer from arriving', async () => {
  await using run = await replying((_, response, id) =>
    response
      .writeHead(200, events)
      .end(`data: {"jsonrpc":\n\ndata: <html>\n\nevent: ad\ndata: {}\n\ndata: ${answerTo(id)}\n\n`),
  );

  expect((await run.proxy.request('tools/call', act)).result).toBeTruthy();
  expect(run.called).toEqual(['act']);
});

test('message limit: a line of 20 MB is refused by its size, and passes where the limit is higher', async () => {
  const bytes = 20 * 1024 * 1024;
  const reply: Reply = (_, response, id) => response.writeHead(200, json).end(answerTo(id));
  await using small = await replying(reply, { LATCHKEY_MAX_MESSAGE_BYTES: String(bytes / 2) });
  await using large = await replying(reply, { LATCHKEY_MAX_MESSAGE_BYTES: String(bytes * 2) });
  const call = { ...act, arguments: { text: 'x'.repeat(bytes) } };

  const refused = await small.proxy.request('tools/call', call);
  const passed = await large.proxy.request('tools/call', call);
  const next = await small.proxy.request('tools/call', act);

  expect(refused.error?.code).toBe(-32600);
  expect(refused.error?.message).toContain(`${bytes / 2} bytes`);
  expect(passed.result).toBeTruthy();
  expect(next.result).toBeTruthy();
  expect(small.called).toEqual(['act']);
});

test('backpressure: an assistant that stops reading stops the server, and then receives everything', async () => {
  const events64 = 800;
  let written = 0;
  await using run = await replying(async (request, response, id) => {
    if (request.method === 'GET') return response.writeHead(405).end();
    response.writeHead(200, events);
    const params = { progressToken: 1, progress: 1, message: 'x'.repeat(64 * 1024) };
    const event = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params });
    for (; written < events64; written += 1)
      if (!response.write(`data: ${event}\n\n`))
        await new Promise((resolve) => response.once('drain', resolve));
    return response.end(`data: ${answerTo(id)}\n\n`);
  });
  run.proxy.pauseReading();
  run.proxy.send({ jsonrpc: '2.0', id: 'many', method: 'tools/call', params: act });
  await vi.waitFor(() => expect(written).toBeGreaterThan(0), patient);
  // The server is held back when it writes nothing more while the proxy passes on messages of the assistant, one after another.
  let held = -1;
  for (let quiet = 0; quiet < 50; quiet += 1) {
    if (written !== held) quiet = 0;
    held = written;
    const before = run.seen.length;
    run.proxy.send({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' });
    await vi.waitFor(() => expect(run.seen.length).toBeGreaterThan(before), patient);
  }
  run.proxy.goOnReading();
  let count = 0;
  while ((await run.proxy.next()).id !== 'many') count += 1;

  expect(held).toBeLessThan(events64 / 2);
  expect(count).toBe(events64);
});
