import type { ServerResponse } from 'node:http';
import { expect, test, vi } from 'vitest';
import { httpClient } from '#proxy/transport/http-client';
import { jsonLinesLog } from '#proxy/log/log';
import { staticCredential } from '#proxy/transport/credential';
import { compose } from '#proxy/pipeline/step';
import { streamableHttp } from '#proxy/transport/streamable-http';
import { bodyOf, countedServer } from '#support/counted-server';
import { fakeClock } from '#support/fake-clock';
import { asMessage, listener, type Said } from '#support/scripted-upstream';
import { patient } from '#support/patient';

const signal = new AbortController().signal;
const call = { id: 7, method: 'tools/call', params: { name: 'act' } };
const result = '{"jsonrpc":"2.0","id":7,"result":{}}';

/** An upstream at a server that answers nothing until told to. */
async function stalled() {
  const waiting: ServerResponse[] = [];
  const run = await upstreamAt(async (request, response) => {
    await bodyOf(request);
    waiting.push(response);
  });
  return { ...run, waiting };
}

async function upstreamAt(handle: Parameters<typeof countedServer>[0]) {
  const server = await countedServer(handle);
  const http = httpClient(() => ({ env: {} }));
  const clock = fakeClock();
  const upstream = streamableHttp({
    url: new URL(server.origin),
    credential: staticCredential({}),
    http,
    clock,
    log: jsonLinesLog('error', () => undefined),
    maxMessageBytes: 10_000,
  });
  return {
    clock,
    upstream,
    async [Symbol.asyncDispose]() {
      http.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

test('streamable HTTP: behind a step that changes nothing, a call is answered and the upstream closes', async () => {
  await using run = await upstreamAt(async (request, response) => {
    await bodyOf(request);
    response.setHeader('content-type', 'application/json').end(result);
  });
  const assistant = listener();
  const upstream = compose([{ name: 'none', on: () => ({}) }], run.upstream);
  await upstream.send(asMessage(call), assistant.deliver, signal);
  await upstream.close(signal);

  expect(assistant.said).toHaveLength(1);
});

test.each(['JSON', 'an event stream'] as const)(
  'streamable HTTP: a server that stalls for two minutes and then answers with %s gets one request',
  async (kind) => {
    await using run = await stalled();
    const assistant = listener();
    const sent = run.upstream.send(asMessage(call), assistant.deliver, signal);
    await vi.waitFor(() => expect(run.waiting).toHaveLength(1), patient);
    const [response] = run.waiting;
    if (kind !== 'JSON') response?.writeHead(200, { 'content-type': 'text/event-stream' });
    if (kind !== 'JSON') response?.write(': working\n\n');
    await run.clock.advance(120);
    const early = assistant.said.length;
    if (kind === 'JSON')
      response?.writeHead(200, { 'content-type': 'application/json' }).end(result);
    else response?.end(`data: ${result}\n\n`);
    await sent;

    expect(early).toBe(0);
    expect(assistant.texts).toEqual([result]);
    expect(run.waiting).toHaveLength(1);
  },
);

/** A server with one session at a time, which it may forget. It records each message with the session of the message. */
async function forgetful() {
  const asked: string[] = [];
  const refused = new Set<string>();
  /** Sessions that the server forgets as soon as it gets a notification in them. */
  const fickle = new Set<string>();
  let made = 0;
  let open = '';
  const run = await upstreamAt(async (request, response) => {
    const said: Said = JSON.parse(await bodyOf(request));
    const { id, method = '', params } = said;
    const session = String(request.headers['mcp-session-id'] ?? '');
    if (method !== 'initialize' && session !== open) return void response.writeHead(404).end();
    if (method === 'initialize') open = `s${(made += 1)}`;
    const setting = params?.['uri'] ?? params?.['level'];
    asked.push([open, method, setting].filter(Boolean).join(' '));
    if (id === undefined && fickle.delete(open)) open = 'nobody knows';
    if (id === undefined) return void response.writeHead(202).end();
    const isRefused = refused.has(String(params?.['uri']));
    const outcome = isRefused
      ? { error: { code: -32002, message: 'no such thing' } }
      : { result: { protocolVersion: '2025-06-18' } };
    response
      .writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': open })
      .end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
  });
  let id = 0;
  const ask = async (method: string, params: Record<string, unknown> = {}) => {
    const assistant = listener();
    id += 1;
    await run.upstream.send(asMessage({ id, method, params }), assistant.deliver, signal);
    return assistant.said[0];
  };
  const begin = () => ask('initialize', { capabilities: {} });
  /** Forgets the session and sends a request: its answer, and the messages that the server then gets. */
  const healed = async (method = 'ping') => {
    open = 'nobody knows';
    asked.splice(0);
    const answer = await ask(method);
    return { answer, asked: asked.splice(0) };
  };
  return { ...run, ask, begin, healed, refused, fickle };
}

test('forgotten session: the new session gets the log level and the subscriptions of the assistant', async () => {
  await using server = await forgetful();
  await server.begin();
  for (const level of ['debug', 'warning']) await server.ask('logging/setLevel', { level });
  for (const uri of ['a:1', 'a:2', 'a:3']) await server.ask('resources/subscribe', { uri });
  await server.ask('resources/unsubscribe', { uri: 'a:2' });
  const healed = await server.healed();

  expect(healed.answer).toMatchObject({ id: 8, result: {} });
  expect(healed.asked).toEqual([
    's2 initialize',
    's2 notifications/initialized',
    's2 logging/setLevel warning',
    's2 resources/subscribe a:1',
    's2 resources/subscribe a:3',
    's2 ping',
  ]);
  expect((await server.healed()).asked).toHaveLength(6);
});

test('forgotten session: refused subscriptions are not repeated, and a refusal does not stop the new session', async () => {
  await using server = await forgetful();
  await server.begin();
  server.refused.add('a:1');
  for (const uri of ['a:1', 'a:2']) await server.ask('resources/subscribe', { uri });
  server.refused.add('a:2');
  const healed = await server.healed();

  expect(healed.answer).toMatchObject({ result: {} });
  expect(healed.asked).toEqual([
    's2 initialize',
    's2 notifications/initialized',
    's2 resources/subscribe a:2',
    's2 ping',
  ]);
});

test('forgotten session: a new initialize of the assistant clears its log level and subscriptions', async () => {
  await using server = await forgetful();
  await server.begin();
  await server.ask('logging/setLevel', { level: 'debug' });
  await server.begin();

  expect((await server.healed()).asked).toEqual([
    's3 initialize',
    's3 notifications/initialized',
    's3 ping',
  ]);
});

test('forgotten session: if the server forgets it again during the recovery, the request fails', async () => {
  await using server = await forgetful();
  await server.begin();
  await server.ask('logging/setLevel', { level: 'debug' });
  server.fickle.add('s2');

  await expect(server.healed()).rejects.toMatchObject({ code: 'status' });
  expect((await server.healed()).asked).toEqual([
    's3 initialize',
    's3 notifications/initialized',
    's3 logging/setLevel debug',
    's3 ping',
  ]);
});

const lost = (id: number) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32000, message: 'its answer broke off', data: { outcome: 'unknown' } },
});
test.each([
  ['what only reads is asked once more', 'resources/read', 1, 2, { result: {} }],
  ['what is lost twice is told', 'resources/read', 2, 2, { error: lost(7).error }],
  ['what may not run twice is not asked again', 'tools/call', 1, 1, { error: lost(7).error }],
])('gateway that loses its server during an answer: %s', async (_, method, losses, asks, said) => {
  let asked = 0;
  await using run = await upstreamAt(async (request, response) => {
    await bodyOf(request);
    asked += 1;
    const answer = asked <= losses ? lost(7) : { jsonrpc: '2.0', id: 7, result: {} };
    response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end(`: working\n\ndata: ${JSON.stringify(answer)}\n\n`);
  });
  const assistant = listener();
  const params = method === 'tools/call' ? { name: 'act' } : { uri: 'a:1' };
  await run.upstream.send(asMessage({ id: 7, method, params }), assistant.deliver, signal);

  expect(asked).toBe(asks);
  expect(assistant.said).toEqual([{ jsonrpc: '2.0', id: 7, ...said }]);
});

test('streamable HTTP: initialize carries its method in a header, other legacy requests do not', async () => {
  const methods: unknown[] = [];
  await using run = await upstreamAt(async (request, response) => {
    const { id }: Said = JSON.parse(await bodyOf(request));
    methods.push(request.headers['mcp-method']);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: {} }));
  });
  const assistant = listener();
  await run.upstream.send(asMessage({ id: 1, method: 'initialize' }), assistant.deliver, signal);
  await run.upstream.send(asMessage({ id: 2, method: 'ping' }), assistant.deliver, signal);

  expect(methods).toEqual(['initialize', undefined]);
});
