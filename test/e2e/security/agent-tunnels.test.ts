import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { agentServer, type AgentServer } from '#support/agent-server';
import { rawAgent, refusedDial } from '#support/raw-agent';
import { head, types, wireFrame, type WireFrame } from '#support/wire-frames';

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

test('73: without a key that counts nobody gets to the first frame', async () => {
  const revoked = madeKey.parse(await server.command('agent', 'create', 'acme/old'));
  await server.command('agent', 'revoke', revoked.id);
  const wrong = [undefined, otherChecksum(server.agent.key), revoked.key, 'x', 'pk_live_'];
  const statuses: number[] = [];
  for (const key of wrong) {
    statuses.push(await refusedDial(server.base, key === undefined ? {} : { key }));
  }

  expect(statuses).toEqual(wrong.map(() => 401));
});

test('73: a revoked key ends its tunnel within a second, and the calls in it with a JSON-RPC error', async () => {
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

test('74: an agent is asked for what is bound to it, whatever else it announces', async () => {
  const other = madeKey.parse(await server.command('agent', 'create', 'acme/other'));
  await using intruder = await rawAgent(server.base, { key: other.key, servers: ['sales'] });
  const { status } = await server.call();

  expect(intruder.frames.map(({ json }) => json)).toEqual([
    { organization: 'acme', agent: 'other', servers: [] },
  ]);
  expect(status).toBe(503);
});

test('74: frames for the streams of others reach nobody, and a thousand of them end the tunnel', async () => {
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
])('74: %s ends the tunnel', async (_, message, code) => {
  await using agent = await server.connect({ servers: undefined });
  agent.socket.send(message);

  expect(await agent.closed).toBe(code);
  expect((await server.request('/healthz')).status).toBe(200);
});

test('75: a browser opens no tunnel, whatever its key, and is told nothing about it', async () => {
  const headers = { Origin: 'https://evil.example' };

  expect(await refusedDial(server.base, { key: server.agent.key, headers })).toBe(403);
  expect(await refusedDial(server.base, { key: 'x', headers })).toBe(403);
  const own = { Origin: server.base };
  expect(await refusedDial(server.base, { key: server.agent.key, headers: own })).toBe(403);
});

test('75: two agents with one key both serve, and every answer is its own', async () => {
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

test('75: two agents serve one server, and the calls of one that dies move to the other', async () => {
  const dying: WireFrame[] = [];
  await using survivor = await server.connect({ hello: { instance: 'survivor' } });
  await using one = await server.connect({
    hello: { instance: 'one' },
    onFrame: (frame) => void dying.push(frame),
  });
  const opened = (frames: readonly WireFrame[]) =>
    frames.filter(({ type }) => type === types.open).length;
  const calls = Array.from({ length: 40 }, (_, index) => server.call(`first ${index}.`));
  await expect.poll(() => opened(dying), { timeout: 20_000 }).toBeGreaterThan(0);
  await expect
    .poll(() => opened(dying) + opened(survivor.frames), { timeout: 20_000 })
    .toBe(calls.length);
  const taken = opened(dying);
  one.socket.terminate();
  const answers = await Promise.all(calls);
  const next = await Promise.all(
    Array.from({ length: 40 }, (_, index) => server.call(`next ${index}.`)),
  );

  const kept = answers.filter(({ text }, index) => text.includes(`"first ${index}."`));
  const failed = answers.filter(({ errorCode }) => errorCode !== undefined);
  expect([failed.length, kept.length]).toEqual([taken, calls.length - taken]);
  next.forEach(({ status, text }, index) => {
    expect([status, text]).toEqual([200, expect.stringContaining(`"next ${index}."`)]);
  });
});

test('a dial that names another subprotocol, another host or no WebSocket is refused', async () => {
  const { key } = server.agent;

  expect(await refusedDial(server.base, { key, subprotocols: ['other'] })).toBe(400);
  expect(await refusedDial(server.base, { key, subprotocols: [] })).toBe(400);
  expect(await refusedDial(server.base, { key, headers: { Host: 'evil.example' } })).toBe(421);
  const plain = await server.request('/api/agents/connect', { headers: { 'X-API-Key': key } });
  expect(plain.status).toBe(426);
});

test('a request that asks for a protocol nobody speaks is answered as if it had not', async () => {
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

test('44: who tries one key after another is not listened to any more', async () => {
  await using alone = await agentServer();
  const statuses: number[] = [];
  for (let count = 0; count < 21; count += 1) {
    statuses.push(await refusedDial(alone.base, { key: `pk_live_${'a'.repeat(36)}` }));
  }

  expect(statuses.slice(0, 20)).toEqual(Array(20).fill(401));
  expect(statuses.at(-1)).toBe(429);
});
