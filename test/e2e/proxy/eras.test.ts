import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { proxyProcess, type ProxyProcess } from '#support/proxy-process';
import { sseServer } from '#support/sse-server';
import { temporaryFolder } from '#support/temporary-folder';
import { modernOnlyUpstream } from '#support/upstreams/modern-only-upstream';
import type { Upstream } from '#support/upstreams/upstream';
import { patient } from '#support/patient';

/** A server of the modern era alone, and the state that one start of the proxy leaves to the next. */
async function modernServer() {
  const upstream = await modernOnlyUpstream();
  const folder = await temporaryFolder('eras');
  return {
    upstream,
    state: folder.path,
    methods: () => methods(upstream),
    start: () => startProxy(upstream.url, folder.path),
    async [Symbol.asyncDispose]() {
      await upstream.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

function startProxy(url: string, state: string): ProxyProcess {
  const env = { LATCHKEY_API_KEY: `mcp_${'k'.repeat(36)}`, LATCHKEY_STATE_DIR: state };
  return proxyProcess({ args: [url], env });
}

function methods({ requests }: Upstream): string[] {
  return requests.map(({ body }) => {
    const { method }: { method: string } = JSON.parse(body);
    return method;
  });
}

/** The handshake of an assistant that supports sampling. */
async function shakeHands(proxy: ProxyProcess) {
  const { result } = await proxy.request('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: { sampling: {} },
    clientInfo: { name: 'assistant', version: '1' },
  });
  proxy.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  return result;
}

const call = (id: string, name: string, args: object, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, ...more },
});

test('legacy assistant, modern server: they work together, and the next start needs one request', async () => {
  await using server = await modernServer();
  await using first = server.start();
  const met = await shakeHands(first);
  const listed = await first.request('tools/list');
  const before = server.methods();
  await using second = server.start();
  await shakeHands(second);
  const [file = ''] = await readdir(join(server.state, 'servers'));
  const path = join(server.state, 'servers', file);

  expect(met).toMatchObject({ protocolVersion: '2025-06-18', serverInfo: { name: 'modern' } });
  expect(listed.result).not.toHaveProperty('resultType');
  expect(before.filter((method) => method !== 'subscriptions/listen')).toEqual([
    'initialize',
    'server/discover',
    'tools/list',
  ]);
  expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
  expect(await readFile(path, 'utf8')).toBe('modern');
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test('legacy assistant, modern server: required input is requested from the assistant', async () => {
  await using server = await modernServer();
  await using proxy = server.start();
  await shakeHands(proxy);

  proxy.send(call('a', 'ask', { question: 'why?' }));
  const asked = await proxy.next();
  const content = { type: 'text', text: 'because' };
  const result = { role: 'assistant', model: 'm', content };
  proxy.send({ jsonrpc: '2.0', id: asked.id, result });
  const answer = await proxy.next();

  expect(asked).toMatchObject({ method: 'sampling/createMessage' });
  expect(answer).toMatchObject({
    id: 'a',
    result: { content: [{ text: 'because (asked: why?)' }] },
  });
});

test('legacy assistant, modern server: progress and change notifications arrive', async () => {
  await using server = await modernServer();
  await using proxy = server.start();
  await shakeHands(proxy);
  await vi.waitFor(() => expect(server.methods()).toContain('subscriptions/listen'), patient);

  proxy.send(call('p', 'progress', { steps: 3 }, { _meta: { progressToken: 7 } }));
  const said = [await proxy.next(), await proxy.next(), await proxy.next(), await proxy.next()];
  await vi.waitFor(async () => {
    await server.upstream.announceTools();
    expect(proxy.unread()).not.toEqual([]);
  }, patient);
  const changed = await proxy.next();

  expect(
    said.map(({ id, params: { progress, progressToken } = {} }) => [id, progress, progressToken]),
  ).toEqual([
    [undefined, 1, 7],
    [undefined, 2, 7],
    [undefined, 3, 7],
    ['p', undefined, undefined],
  ]);
  expect(changed.method).toBe('notifications/tools/list_changed');
});

test('legacy assistant, modern server: a cancelled call ends by closing its stream', async () => {
  await using server = await modernServer();
  await using proxy = server.start();
  await shakeHands(proxy);

  proxy.send(call('w', 'slow', {}));
  await server.upstream.slow.until('started');
  const params = { requestId: 'w' };
  proxy.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
  await server.upstream.slow.until('cancelled');

  expect((await proxy.request('ping')).result).toEqual({});
  expect(server.methods()).not.toContain('notifications/cancelled');
  expect(proxy.unread()).toEqual([]);
});

test('transport: an entry with sse-only sends nothing to a streamable HTTP endpoint', async () => {
  await using server = await sseServer({
    answer: ({ id }) => ({ id, result: { protocolVersion: '2024-11-05', capabilities: {} } }),
  });
  await using folder = await temporaryFolder('eras');
  const config = join(folder.path, 'config.json');
  const acme = { url: server.url.href, transport: 'sse-only', apiKey: `mcp_${'k'.repeat(36)}` };
  await writeFile(config, JSON.stringify({ mcpServers: { acme } }));
  await using proxy = proxyProcess({ args: ['acme', '--config', config] });
  const { result } = await proxy.handshake();

  expect(result).toMatchObject({ protocolVersion: '2024-11-05' });
  expect(server.lines()[0]).toBe('GET /sse');
  expect(server.lines()).not.toContain('POST /sse');
});

test('HTTP+SSE server: it is found by its stream, and the next start requests that immediately', async () => {
  await using server = await sseServer({
    answer: ({ id, method }) =>
      method === 'initialize'
        ? { id, result: { protocolVersion: '2024-11-05', capabilities: {} } }
        : { id, result: { tools: [] } },
  });
  await using folder = await temporaryFolder('eras');
  await using first = startProxy(server.url.href, folder.path);
  await first.handshake();
  const listed = await first.request('tools/list');
  const before = server.lines();
  await using second = startProxy(server.url.href, folder.path);
  await second.handshake();

  expect(listed.result).toEqual({ tools: [] });
  expect(before.slice(0, 3)).toEqual(['POST /sse', 'POST /sse', 'GET /sse']);
  expect(server.lines().filter((line) => line === 'POST /sse')).toHaveLength(2);
});
