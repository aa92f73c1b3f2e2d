import { expect, test, vi } from 'vitest';
import { systemClock } from '#proxy/clock/clock';
import { httpClient } from '#proxy/transport/http-client';
import { jsonLinesLog } from '#proxy/log/log';
import { staticCredential } from '#proxy/transport/credential';
import { httpSse } from '#proxy/transport/http-sse';
import { UpstreamError } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';
import { asMessage, listener, type Said } from '#support/scripted-upstream';
import { sseServer, type SseServer } from '#support/sse-server';
import { patient } from '#support/patient';

const log = jsonLinesLog('error', () => undefined);
const signal = new AbortController().signal;
const initialize = { id: 0, method: 'initialize', params: { protocolVersion: '2024-11-05' } };
const methods = ({ posted }: SseServer) => posted.map(({ method }) => method);

function connected({ url }: { url: URL }, clock = systemClock(), maxMessageBytes = 10_000) {
  const http = httpClient(() => ({ env: {} }));
  const credential = staticCredential({ authorization: 'Bearer secret' });
  const upstream = httpSse({ url, credential, http, clock, log, maxMessageBytes });
  const assistant = listener();
  return {
    upstream,
    assistant,
    send: async (message: Said, until = signal) =>
      upstream.send(asMessage(message), assistant.deliver, until),
    async [Symbol.asyncDispose]() {
      await upstream.close(signal);
      http.close();
    },
  };
}

test('HTTP+SSE: requests are posted to the URL that the stream names, and answered on the stream', async () => {
  await using server = await sseServer();
  await using client = connected(server);
  await client.send(initialize);
  await client.send({ method: 'notifications/initialized' });
  await client.send({ id: 'a', method: 'tools/list' });

  expect(server.lines()).toEqual([
    'GET /sse',
    ...Array.from({ length: 3 }, () => 'POST /messages?session=1'),
  ]);
  expect(server.seen.every(({ headers }) => headers.authorization === 'Bearer secret')).toBe(true);
  expect(client.assistant.said.map(({ id }) => id)).toEqual([0, 'a']);
});

test('HTTP+SSE: nothing is sent to a message URL of another origin', async () => {
  await using elsewhere = await sseServer();
  await using server = await sseServer({ endpoint: () => `${elsewhere.origin}/messages` });
  await using client = connected(server);

  await expect(client.send(initialize)).rejects.toMatchObject({ code: 'redirected' });
  expect(elsewhere.seen).toEqual([]);
});

test('HTTP+SSE: a server without such a stream is an error that says so', async () => {
  await using server = await sseServer();
  await using client = connected({ url: new URL('/elsewhere', server.origin) });

  await expect(client.upstream.open()).rejects.toMatchObject({ code: 'status', status: 404 });
});

test('HTTP+SSE: a stream that names no message URL is closed', async () => {
  await using server = await sseServer({ endpoint: () => '' });
  const clock = fakeClock();
  await using client = connected(server, clock);

  const opened = client.upstream.open();
  opened.catch(() => undefined);
  await vi.waitFor(() => expect(server.seen).toHaveLength(1), patient);
  await clock.advance(10);

  await expect(opened).rejects.toBeInstanceOf(UpstreamError);
});

test('HTTP+SSE: the server’s requests and notifications arrive, and the answer is posted', async () => {
  await using server = await sseServer();
  await using client = connected(server);
  await client.send(initialize);
  const over = new AbortController();
  const listening = client.upstream.listen(client.assistant.deliver, over.signal);

  server.say({ id: 9, method: 'roots/list' });
  server.say({ method: 'notifications/tools/list_changed' });
  await vi.waitFor(() => expect(client.assistant.said).toHaveLength(3), patient);
  await client.send({ id: 9, result: { roots: [] } });
  over.abort();
  await listening;

  expect(server.posted.at(-1)).toEqual({ id: 9, result: { roots: [] } });
});

test('HTTP+SSE: an interrupted stream fails open requests, and the next one repeats the handshake', async () => {
  await using server = await sseServer({
    answer: ({ id, method }) => (method === 'tools/call' ? undefined : { id, result: {} }),
  });
  await using client = connected(server);
  await client.send(initialize);
  const call = client.send({ id: 1, method: 'tools/call' });
  call.catch(() => undefined);
  await vi.waitFor(() => expect(server.posted).toHaveLength(2), patient);
  server.breakOff();

  await expect(call).rejects.toMatchObject({ code: 'no_answer' });
  await client.send({ id: 2, method: 'tools/list' });

  expect(methods(server).slice(2)).toEqual([
    'initialize',
    'notifications/initialized',
    'tools/list',
  ]);
  expect(client.assistant.said.map(({ id }) => id)).toEqual([0, 2]);
});

test('HTTP+SSE: a request for a forgotten session is posted again after a new handshake', async () => {
  await using server = await sseServer();
  await using client = connected(server);
  await client.send(initialize);
  server.breakOff(true);

  await client.send({ id: 2, method: 'tools/list' });

  expect(client.assistant.said.map(({ id }) => id)).toEqual([0, 2]);
});

test('HTTP+SSE: a cancelled request ends, and its late answer is dropped', async () => {
  await using server = await sseServer({ answer: () => undefined });
  await using client = connected(server);
  const cancel = new AbortController();
  const call = client.send({ id: 1, method: 'tools/call' }, cancel.signal);
  call.catch(() => undefined);
  await vi.waitFor(() => expect(server.posted).toHaveLength(1), patient);
  cancel.abort();
  await expect(call).rejects.toMatchObject({ code: 'aborted' });

  server.say({ id: 1, result: {} });
  server.say({ method: 'notifications/message' });
  await vi.waitFor(() => expect(client.assistant.said).not.toEqual([]), patient);

  expect(client.assistant.said.map(({ method }) => method)).toEqual(['notifications/message']);
});

test('HTTP+SSE: a message over the limit fails open requests', async () => {
  await using server = await sseServer({
    answer: ({ id }) => ({ id, result: { text: 'x'.repeat(20_000) } }),
  });
  await using client = connected(server);

  await expect(client.send({ id: 1, method: 'tools/call' })).rejects.toMatchObject({
    code: 'too_large',
  });
});

test('HTTP+SSE: an interrupted stream makes a call’s outcome unknown, and read requests are repeated', async () => {
  let lists = 0;
  await using server = await sseServer({
    answer: ({ id, method }) => {
      if (method === 'initialize') return { id, result: {} };
      if (method === 'tools/list' && (lists += 1) > 1) return { id, result: { tools: [] } };
      setImmediate(() => server.breakOff());
      return undefined;
    },
  });
  await using client = connected(server);
  await client.send(initialize);
  const call = client.send({ id: 1, method: 'tools/call', params: { name: 'act' } });

  await expect(call).rejects.toMatchObject({
    code: 'no_answer',
    details: { outcomeUnknown: true },
  });
  await client.send({ id: 2, method: 'tools/list' });
  expect(client.assistant.said.at(-1)).toMatchObject({ id: 2, result: { tools: [] } });
  expect(methods(server).filter((method) => method === 'tools/call')).toHaveLength(1);
  expect(lists).toBe(2);
});
