import type { ServerResponse } from 'node:http';
import { expect, test, vi } from 'vitest';
import { httpClient } from '#proxy/http/http-client';
import { jsonLinesLog } from '#proxy/log/log';
import { staticCredential } from '#proxy/upstream/credential';
import { streamableHttp } from '#proxy/upstream/streamable-http';
import { bodyOf, countedServer } from '#support/counted-server';
import { fakeClock } from '#support/fake-clock';
import { asMessage, listener } from '#support/scripted-upstream';

const signal = new AbortController().signal;
const call = { id: 7, method: 'tools/call', params: { name: 'act' } };
const result = '{"jsonrpc":"2.0","id":7,"result":{}}';

/** An upstream at a server that answers nothing until told to. */
async function stalled() {
  const waiting: ServerResponse[] = [];
  const server = await countedServer(async (request, response) => {
    await bodyOf(request);
    waiting.push(response);
  });
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
    waiting,
    upstream,
    async [Symbol.asyncDispose]() {
      http.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

test.each(['JSON', 'an event stream'] as const)(
  'a server that stalls for two minutes and then answers with %s is waited for, and asked once',
  async (kind) => {
    await using run = await stalled();
    const assistant = listener();
    const sent = run.upstream.send(asMessage(call), assistant.deliver, signal);
    await vi.waitFor(() => expect(run.waiting).toHaveLength(1));
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
