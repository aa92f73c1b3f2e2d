import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { agentServer, type AgentServer } from '#support/agent-server';
import { modern } from '#support/mcp-call';
import { head, types, wireFrame, type WireFrame } from '#support/wire-frames';
import type { RawAgent } from '#support/raw-agent';

let server: AgentServer;
beforeAll(async () => {
  server = await agentServer();
});
afterAll(() => server[Symbol.asyncDispose]());

const megabyte = 1024 * 1024;
const pieceBytes = 64 * 1024;
const start = '{"jsonrpc":"2.0","id":1,"result":{"text":"';
const end = '"}}';

/** Answers the first request, whose id is 1, with that many bytes, as the credit allows; counts what it sent. */
function longAnswer(bytes: number) {
  let left = bytes;
  let allowed = 256 * 1024;
  const flush = (stream: number, agent: RawAgent) => {
    while (left > 0 && allowed >= pieceBytes) {
      const piece = Buffer.alloc(pieceBytes, 'x');
      if (left === bytes) piece.write(start);
      if (left === pieceBytes) piece.write(end, pieceBytes - end.length);
      agent.say(wireFrame(types.data, stream, piece));
      left -= pieceBytes;
      allowed -= pieceBytes;
    }
    if (left === 0) agent.say(wireFrame(types.end, stream));
  };
  return {
    sent: () => bytes - left,
    onFrame({ type, stream, payload }: WireFrame, agent: RawAgent) {
      if (type === types.credit) allowed += payload.readUInt32BE(0);
      else if (type === types.end) agent.say(head(stream));
      else return;
      if (left > 0) flush(stream, agent);
    },
  };
}

function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

test('tunnel: an answer of 64 MB waits for a slow caller, without filling the server’s memory', async () => {
  const answer = longAnswer(64 * megabyte);
  await using agent = await server.connect({ onFrame: (frame, to) => answer.onFrame(frame, to) });
  const { headers, body } = modern('tools/call', { name: 'dump', arguments: {} });
  const before = residentBytes(server.program.pid);
  const call = request(server.endpoint, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json', 'X-API-Key': server.mcpKey },
  });
  call.end(body);
  const response = await new Promise<IncomingMessage>((resolve) => {
    call.once('response', resolve);
  });
  // Nothing more is sent once the buffers of both sockets are full: the server then takes what was sent but grants no more
  // credit. A hundred pings in a row, each sent after the data and answered, show this.
  let last = -1;
  for (let quiet = 0; quiet < 100; quiet += 1) {
    if (answer.sent() !== last) quiet = 0;
    last = answer.sent();
    agent.socket.ping();
    await once(agent.socket, 'pong');
  }

  expect(last).toBeLessThan(24 * megabyte);
  expect(residentBytes(server.program.pid) - before).toBeLessThan(64 * megabyte);
  let received = 0;
  for await (const chunk of response) received += Buffer.from(chunk).length;
  expect(received).toBe(64 * megabyte);
  expect(agent.socket.readyState).toBe(agent.socket.OPEN);
});

test('tunnel: a caller that disconnects frees its slot, and the agent is told within a second', async () => {
  await using agent = await server.connect({ onFrame: () => undefined });
  const leaving = new AbortController();
  const { headers, body } = modern('tools/call', { name: 'slow', arguments: {} });
  const call = fetch(server.endpoint, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json', 'X-API-Key': server.mcpKey },
    body,
    signal: leaving.signal,
  });
  const { stream } = await agent.frame(({ type }) => type === types.open);
  leaving.abort();
  await expect(call).rejects.toMatchObject({ name: 'AbortError' });

  const reset = await agent.frame(({ type }) => type === types.reset);
  expect([reset.stream, reset.json['code']]).toEqual([stream, 'cancelled']);
});

test('tunnel: fifty interleaved answers each reach their own caller', async () => {
  const waiting = new Map<number, string>();
  await using _agent = await server.connect({
    onFrame({ type, stream, payload }, agent) {
      if (type === types.data) waiting.set(stream, payload.toString());
      if (waiting.size < 50 || type !== types.end) return;
      const answers = [...waiting].map(([of, asked]) => {
        const { id, params } = JSON.parse(asked);
        return [of, JSON.stringify({ jsonrpc: '2.0', id, result: params.arguments })] as const;
      });
      waiting.clear();
      for (const [of] of answers.toReversed()) agent.say(head(of));
      for (let at = 0; at < 200; at += 10) {
        for (const [of, text] of answers) {
          agent.say(wireFrame(types.data, of, text.slice(at, at + 10)));
        }
      }
      for (const [of] of answers) agent.say(wireFrame(types.end, of));
    },
  });
  const nonces = Array.from({ length: 50 }, (_, index) => `n${index}.`);
  const texts = await Promise.all(nonces.map(async (nonce) => (await server.call(nonce)).text));

  expect(texts).toEqual(
    nonces.map((nonce) => JSON.stringify({ jsonrpc: '2.0', id: 1, result: { nonce } })),
  );
});

test('tunnel: an event stream whose agent is lost ends with a JSON-RPC error', async () => {
  await using agent = await server.connect({
    onFrame({ type, stream }, { say }) {
      if (type !== types.end) return;
      const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
      say(head(stream, { 'content-type': 'text/event-stream' }));
      say(wireFrame(types.data, stream, `data: ${progress}\n\n`));
    },
  });
  const { headers, body } = modern('tools/call', { name: 'slow', arguments: {} }, 77);
  const answer = await fetch(server.endpoint, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json', 'X-API-Key': server.mcpKey },
    body,
  });
  agent.socket.terminate();

  const events = (await answer.text()).split('\n\n');
  expect(events[0]).toContain('notifications/progress');
  expect(events.at(-2)).toMatch(/^event: message\ndata: \{"jsonrpc":"2\.0","id":77,"error":/m);
});

test('tunnel: a stopping server tells its agents and lets open calls finish', async () => {
  await using alone = await agentServer();
  await using agent = await alone.connect({ onFrame: () => undefined });
  const call = alone.call('last words');
  const { stream } = await agent.frame(({ type }) => type === types.open);
  process.kill(alone.program.pid, 'SIGTERM');
  await agent.frame(({ type }) => type === types.drain);
  const text = '{"jsonrpc":"2.0","id":1,"result":{}}';
  agent.say(head(stream), wireFrame(types.data, stream, text), wireFrame(types.end, stream));

  expect((await call).text).toBe(text);
  expect(await agent.closed).toBe(1001);
  expect((await alone.program.exited).code).toBe(0);
});
