import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { agentServer, type AgentServer } from '#support/agent-server';
import { rawAgent, refusedDial, type RawAgent } from '#support/raw-agent';
import { head, types, wireFrame } from '#support/wire-frames';
import { rawHttp } from '#support/raw-http';
import { patient } from '#support/patient';

let server: AgentServer;
beforeAll(async () => {
  server = await agentServer();
});
afterAll(() => server[Symbol.asyncDispose]());

const madeKey = z.object({ id: z.string(), key: z.string() });
const otherChecksum = (key: string) => key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a');

test('59: an agent key opens no MCP endpoint, and an MCP key no tunnel', async () => {
  const asMcpKey = await server.call('n', { key: server.agent.key });
  const unknown = await server.call('n', { key: `mcp_${'a'.repeat(36)}` });

  expect([asMcpKey.status, asMcpKey.text]).toEqual([401, unknown.text]);
  expect(await refusedDial(server.base, { key: server.mcpKey })).toBe(401);
});

test('73: agent tunnel: no frame is read without a valid agent key', async () => {
  const revoked = madeKey.parse(await server.command('agent', 'create', 'acme/old'));
  await server.command('agent', 'revoke', revoked.id);
  const wrong = [undefined, otherChecksum(server.agent.key), revoked.key, 'x', 'pk_live_'];
  const statuses: number[] = [];
  for (const key of wrong) {
    statuses.push(await refusedDial(server.base, key === undefined ? {} : { key }));
  }

  expect(statuses).toEqual(wrong.map(() => 401));
});

test('73: agent tunnel: a revoked key ends it within a second, and its calls with a JSON-RPC error', async () => {
  const made = madeKey.parse(await server.command('agent', 'create', 'acme/short'));
  await server.command('server', 'create', 'acme/brief', '--agent', 'short');
  const { key } = madeKey.parse(await server.command('key', 'create', 'acme/brief', '--name', 'k'));
  await using agent = await rawAgent(server.base, {
    key: made.key,
    servers: ['brief'],
    onFrame: () => undefined,
  });
  const call = server.call('n', { key, endpoint: `${server.base}/mcp/acme/brief` });
  await agent.frame(({ type }) => type === types.open);
  await server.command('agent', 'revoke', made.id);

  expect(await agent.closed).toBe(4401);
  const { status, errorCode } = await call;
  expect([status, errorCode]).toEqual([502, -32000]);
  expect(await refusedDial(server.base, { key: made.key })).toBe(401);
});

test('74: agent tunnel: an agent gets requests only for its bound servers, whatever else it announces', async () => {
  const other = madeKey.parse(await server.command('agent', 'create', 'acme/other'));
  await using intruder = await rawAgent(server.base, { key: other.key, servers: ['sales'] });
  const { status } = await server.call();

  expect(intruder.frames.map(({ json }) => json)).toEqual([
    { organization: 'acme', agent: 'other', servers: [], batches: true },
  ]);
  expect(status).toBe(503);
});

test('74: agent tunnel: frames for other streams reach no one, and a thousand of them end the tunnel', async () => {
  await using honest = await server.connect();
  const other = madeKey.parse(await server.command('agent', 'create', 'acme/liar'));
  await using liar = await rawAgent(server.base, { key: other.key, servers: ['sales'] });
  const lie = '{"jsonrpc":"2.0","id":1,"result":{"content":"lie"}}';
  const calls = Array.from({ length: 20 }, (_, index) => server.call(`nonce ${index}`));
  for (let stream = 1; stream <= 350; stream += 1) {
    liar.say(head(stream), wireFrame(types.data, stream, lie), wireFrame(types.end, stream));
  }

  expect(await liar.closed).toBe(4403);
  const texts = (await Promise.all(calls)).map(({ text }) => text);
  texts.forEach((text, index) => expect(text).toContain(`"nonce ${index}"`));
  expect(honest.socket.readyState).toBe(honest.socket.OPEN);
});

test.each([
  ['a frame that is too long', Buffer.alloc(65_542, types.data), 1009],
  ['a text message', '{"type":1}', 1003],
  ['a frame before HELLO', wireFrame(types.data, 1), 4403],
])('74: agent tunnel: %s ends it', async (_, message, code) => {
  await using agent = await server.connect({ servers: undefined });
  agent.socket.send(message);

  expect(await agent.closed).toBe(code);
  expect((await server.request('/healthz')).status).toBe(200);
});

test('75: agent tunnel: a browser cannot open one with any key, and gets no information', async () => {
  const headers = { Origin: 'https://evil.example' };

  expect(await refusedDial(server.base, { key: server.agent.key, headers })).toBe(403);
  expect(await refusedDial(server.base, { key: 'x', headers })).toBe(403);
  const own = { Origin: server.base };
  expect(await refusedDial(server.base, { key: server.agent.key, headers: own })).toBe(403);
});

test('75: agent tunnel: two agents with one key both serve, and no answers are mixed up', async () => {
  await using one = await server.connect();
  await using two = await server.connect();
  const nonces = Array.from({ length: 200 }, (_, index) => `nonce ${index}.`);
  const answers = await Promise.all(nonces.map((nonce) => server.call(nonce)));

  answers.forEach(({ text }, index) => expect(text).toContain(`"${nonces[index]}"`));
  const served = [one, two].map(
    ({ frames }) => frames.filter(({ type }) => type === types.open).length,
  );
  expect((served[0] ?? 0) + (served[1] ?? 0)).toBe(200);
});

test('75: agent tunnel: when one of two agents of a server dies, its calls fail and later ones use the other', async () => {
  const { key: other } = madeKey.parse(
    await server.command('key', 'create', 'acme/sales', '--name', 'other'),
  );
  const count = 20;
  const opened = ({ frames }: RawAgent) => frames.filter(({ type }) => type === types.open).length;
  const calls = (word: string, key: string) =>
    Array.from({ length: count }, (_, index) => server.call(`${word} ${index}.`, { key }));
  await using dying = await server.connect({
    hello: { instance: 'dying' },
    onFrame: () => undefined,
  });
  const lost = calls('lost', server.mcpKey);
  await expect.poll(() => opened(dying), patient).toBe(count);
  // A new caller goes to the agent with fewer calls, and stays there.
  await using survivor = await server.connect({ hello: { instance: 'survivor' } });
  const kept = await Promise.all(calls('kept', other));
  dying.socket.terminate();
  const ended = await Promise.all(lost);
  const next = await Promise.all(calls('next', server.mcpKey));

  expect(ended.map(({ status, errorCode }) => [status, errorCode])).toEqual(
    lost.map(() => [502, -32000]),
  );
  expect(opened(survivor)).toBe(2 * count);
  [...kept, ...next].forEach(({ status, text }, index) => {
    const nonce = `${index < count ? 'kept' : 'next'} ${index % count}.`;
    expect([status, text]).toEqual([200, expect.stringContaining(`"${nonce}"`)]);
  });
});

test('agent tunnel: a request with another subprotocol, another host or no WebSocket is refused', async () => {
  const { key } = server.agent;

  expect(await refusedDial(server.base, { key, subprotocols: ['other'] })).toBe(400);
  expect(await refusedDial(server.base, { key, subprotocols: [] })).toBe(400);
  expect(await refusedDial(server.base, { key, headers: { Host: 'evil.example' } })).toBe(421);
  const plain = await server.request('/api/agents/connect', { headers: { 'X-API-Key': key } });
  expect(plain.status).toBe(426);
});

test('upgrade: a request for an unknown protocol is answered as an ordinary one', async () => {
  const headers = { Connection: 'Upgrade, HTTP2-Settings', Upgrade: 'h2c' };
  const { request } = await import('node:http');
  const status = await new Promise((resolve, reject) => {
    request(`${server.base}/healthz`, { headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });

  expect(status).toBe(200);
});

test.each(['/healthz', '/mcp/acme/sales', '/sign-in'])(
  'upgrade: one behind an unanswered request for %s ends the connection, and the server continues',
  async (path) => {
    const host = `Host: ${new URL(server.base).host}`;
    const upgrade = ['Connection: Upgrade', 'Upgrade: websocket'];
    const behind = ['GET / HTTP/1.1', host, ...upgrade].join('\r\n');
    const sent = [`GET ${path} HTTP/1.1`, host, '', behind, '', ''].join('\r\n');

    const answer = await rawHttp(Number(new URL(server.base).port), sent);
    const next = await server.request('/healthz');

    expect([answer.closed, next.status]).toEqual([true, 200]);
  },
);

test('44: agent tunnel: an address that tries one key after another gets 429', async () => {
  await using alone = await agentServer();
  const statuses: number[] = [];
  for (let count = 0; count < 21; count += 1) {
    statuses.push(await refusedDial(alone.base, { key: `pk_live_${'a'.repeat(36)}` }));
  }

  expect(statuses.slice(0, 20)).toEqual(Array(20).fill(401));
  expect(statuses.at(-1)).toBe(429);
});
