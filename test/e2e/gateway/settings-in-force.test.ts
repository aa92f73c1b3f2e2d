/** The settings of a server, as its callers see their effect. */
import { afterAll, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { legacyClient, modernClient } from '#support/mcp-clients';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { dualUpstream } from '#support/upstreams/dual-upstream';
import { legacyStatefulUpstream } from '#support/upstreams/legacy-stateful-upstream';

const sessions = await legacyStatefulUpstream();
const dual = await dualUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: sessions.url });

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await sessions.close();
  await dual.close();
});

const manager = ['--scope', 'mcp:server:manage', '--scope', 'mcp:tools:read'];
const executor = ['--scope', 'mcp:tools:execute'];

/** A server of the gateway, and how to change it for the length of a test. */
async function endpointOf(name: string, ...words: string[]) {
  const path = `acme/${name}`;
  if (words.length > 0) await gateway.command('server', 'create', path, ...words);
  const { key } = await gateway.newKey(path, ...manager, ...executor);
  const set = async (settings: object) => {
    const answer = await fetch(`${gateway.base}/api/servers/${path}`, {
      method: 'PATCH',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(settings),
    });
    expect(answer.status).toBe(200);
  };
  const withSettings = async (settings: object) => {
    await set(settings);
    const unset = Object.fromEntries(Object.keys(settings).map((setting) => [setting, null]));
    return { [Symbol.asyncDispose]: () => set(unset) };
  };
  return { path, key, endpoint: `${gateway.base}/mcp/${path}`, withSettings };
}

const stateful = await endpointOf('fixture');
const stateless = await endpointOf('dual', '--http-url', dual.url);
const demo = await endpointOf('demo', '--demo');
const { key, endpoint } = stateless;
const another = (await gateway.newKey('acme/dual')).key;

const call = (name: string, args: object, id = 1) =>
  rpc('tools/call', { name, arguments: args }, id);

test('title and instructions: they reach callers of both eras, with and without a session', async () => {
  const settings = { title: 'Sales – “live”', instructions: 'Ask for orders first.' };
  await using _stateful = await stateful.withSettings(settings);
  await using _stateless = await stateless.withSettings(settings);
  await using inSession = await legacyClient(stateful.endpoint, stateful.key);
  await using old = await legacyClient(endpoint, key);
  await using recent = await modernClient(endpoint, key);
  const discovered = await mcpCall(endpoint, { key, ...modern('server/discover') });

  for (const client of [inSession, old, recent]) {
    expect(client.getServerVersion()).toMatchObject({ title: 'Sales – “live”' });
    expect(client.getInstructions()).toBe('Ask for orders first.');
    expect((await client.listTools()).tools.length).toBeGreaterThan(3);
  }
  expect(discovered.text).toContain('"title":"Sales – “live”"');
});

test('title and instructions: without them the upstream’s own pass byte for byte', async () => {
  const request = modern('server/discover');
  const headers = { ...request.headers, 'content-type': 'application/json' };
  const direct = await fetch(dual.url, { method: 'POST', headers, body: request.body });
  const through = await mcpCall(endpoint, { key, ...request });

  expect(through.text).toBe(await direct.text());
});

test('instructions: those of the server come before the upstream’s', async () => {
  await using _ = await demo.withSettings({ instructions: 'Ours.' });
  await using client = await modernClient(demo.endpoint, demo.key);

  expect(client.getInstructions()).toMatch(/^Ours\.\n\nA sample lending library\./);
});

test('calls per minute: a caller over the limit gets 429 with Retry-After, and another caller does not', async () => {
  await using _ = await stateless.withSettings({ limits: { calls_per_minute: 5 } });
  const answers = await Promise.all(
    Array.from({ length: 12 }).map((_none, id) =>
      mcpCall(endpoint, { key, body: rpc('ping', {}, id) }),
    ),
  );
  const refused = answers.filter(({ status }) => status === 429);

  expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
  expect(refused).toHaveLength(7);
  for (const { headers, text } of refused) {
    const wait = Number(headers.get('retry-after'));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(60);
    expect(JSON.parse(text)).toMatchObject({ id: expect.any(Number), error: { code: -32_000 } });
    expect(text).toContain('the limit of calls per minute for each caller of this server is 5');
  }
  expect((await mcpCall(endpoint, { key: another })).status).toBe(200);
  await stateless.withSettings({ limits: { calls_per_minute: null } });
  expect((await mcpCall(endpoint, { key })).status).toBe(200);
});

test('concurrent calls: one over the limit is refused until another has ended', async () => {
  await using _ = await stateless.withSettings({ limits: { concurrent_calls: 2 } });
  const slow = () => mcpCall(endpoint, { key, body: call('slow', { ms: 1500 }) });
  const running = [slow(), slow()];
  let third = await mcpCall(endpoint, { key });
  // There is room until both slow calls are under way.
  while (third.status === 200) third = await mcpCall(endpoint, { key });
  await Promise.all(running);

  expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1']);
  expect((await mcpCall(endpoint, { key })).status).toBe(200);
});

const tooSlow = 'it exceeded the timeout of this server (1 s)';
const slowParams = { name: 'slow', arguments: { ms: 20_000 } };

test.for([
  ['plain', { body: rpc('tools/call', slowParams) }],
  ['modern', modern('tools/call', slowParams)],
] as const)(
  'call time: a call over the limit ends with an error, and the next is answered: %s',
  async ([, sent]) => {
    await using _ = await stateless.withSettings({ limits: { call_seconds: 1 } });
    const ended = await mcpCall(endpoint, { key, ...sent });

    expect(ended.text).toContain(tooSlow);
    // An answer as an event stream has already begun by then.
    expect([200, 504]).toContain(ended.status);
    expect((await mcpCall(endpoint, { key })).status).toBe(200);
  },
);

test('call time: a call over the limit ends, and its session continues', async () => {
  await using _ = await stateful.withSettings({ limits: { call_seconds: 1 } });
  await using client = await legacyClient(stateful.endpoint, stateful.key);

  await expect(client.callTool(slowParams)).rejects.toThrow(tooSlow);
  expect((await client.listTools()).tools.length).toBeGreaterThan(3);
});

test('message size: a request or answer over its limit does not pass', async () => {
  const limits = { request_bytes: 2048, answer_bytes: 4096 };
  await using _ = await stateless.withSettings({ limits });
  const long = await mcpCall(endpoint, { key, body: call('echo', { text: 'x'.repeat(3000) }) });
  const big = await mcpCall(endpoint, { key, body: call('big', { bytes: 5000 }) });
  const small = await mcpCall(endpoint, { key, body: call('big', { bytes: 3000 }) });
  await using client = await legacyClient(endpoint, key);

  expect([long.status, long.errorCode]).toEqual([413, -32_600]);
  expect(long.text).toContain('this server accepts at most 2048 bytes');
  expect([big.status, big.errorCode]).toEqual([502, -32_000]);
  expect(big.text).toContain('larger than the 4096 bytes that this server allows');
  expect(small.status).toBe(200);
  await expect(client.callTool({ name: 'big', arguments: { bytes: 5000 } })).rejects.toThrow(
    'larger than the 4096 bytes',
  );
  expect(await client.callTool({ name: 'echo', arguments: { text: 'é' } })).toMatchObject({
    content: [{ text: 'é' }],
  });
});

test('limits: refusals are counted and audited', async () => {
  await using _ = await stateless.withSettings({ limits: { calls_per_minute: 1 } });
  for (let id = 0; id < 4; id++) await mcpCall(endpoint, { key, body: rpc('ping', {}, id) });

  // The server answers a refusal before it writes it to the audit log.
  await expect
    .poll(async () => Object.values(await gateway.command('audit', 'list', 'acme')), patient)
    .toContainEqual(
      expect.objectContaining({ action: 'call.too-many-requests', target: 'acme/dual' }),
    );
});
