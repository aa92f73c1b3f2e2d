import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { mcpCall, rpc } from '#support/mcp-call';
import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { natsUrl } from '#support/requirements';
import { suite } from '#support/suite';
import { legacyStatelessUpstream } from '#support/upstreams/legacy-stateless-upstream';
import type { Upstream } from '#support/upstreams/upstream';

const madeKey = z.object({ id: z.string(), key: z.string() });
const madeClient = z.object({ client_id: z.string(), client_secret: z.string() });

await suite(['postgres', 'nats'], 'what nodes count together', () => {
  const stack = new AsyncDisposableStack();
  let upstream: Upstream;
  let cluster: NodeCluster;

  beforeAll(async () => {
    upstream = await legacyStatelessUpstream();
    stack.defer(() => upstream.close());
    const args = ['--nats-url', natsUrl(), '--metrics-address', '127.0.0.1:0'];
    cluster = stack.use(await nodeCluster({ size: 2, args }));
    await cluster.command(['organization', 'create', 'acme']);
    await cluster.command(['server', 'create', 'acme/slow', '--http-url', upstream.url]);
  });
  afterAll(() => stack.disposeAsync());

  const at = (node: number) => ({ 'x-test-node': cluster.nodes[node]?.name ?? '' });
  const call = (node: number, key: string, body = rpc('tools/list')) =>
    mcpCall(`${cluster.base}/mcp/acme/slow`, { key, headers: at(node), body });
  const created = async (noun: string, name: string, ...more: string[]) => {
    const words = [noun, 'create', 'acme/slow', '--name', name, ...more, '--json'];
    return JSON.parse(await cluster.command(words));
  };
  const newKey = async (name: string) => madeKey.parse(await created('key', name)).key;
  const slowCall = (id: number, ms = 60_000) =>
    rpc('tools/call', { name: 'slow', arguments: { ms } }, id);

  test('a call without a session is cancelled at another node, by its own caller only', async () => {
    const [key, stranger] = [await newKey('caller'), await newKey('stranger')];
    const params = { requestId: 7 };
    const cancel = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    const open = call(0, key, slowCall(7));
    await upstream.slow.until('started');

    expect((await call(1, stranger, cancel)).status).toBe(202);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(upstream.slow.count('cancelled')).toBe(0);
    expect((await call(1, key, cancel)).status).toBe(202);

    await upstream.slow.until('cancelled');
    await open;
  });

  test('a caller that guesses secrets at one node is slowed down at the other', async () => {
    const client = madeClient.parse(await created('client', 'app', '--scope', 'mcp:tools:read'));
    const token = async (node: number, secret: string) => {
      const answer = await fetch(`${cluster.base}/api/oauth/token`, {
        method: 'POST',
        headers: at(node),
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          client_id: client.client_id,
          client_secret: secret,
        }),
      });
      return answer.status;
    };
    expect(await token(1, client.client_secret)).toBe(200);

    for (let guess = 0; guess < 20; guess += 1) expect(await token(0, 'wrong')).toBe(401);

    await expect.poll(() => token(1, 'wrong'), patient).toBe(429);
  });

  test('the metrics of a node show that the database and NATS answer', async () => {
    const [, url = ''] = /^metrics: (http:\S+)$/m.exec(cluster.program.stdout) ?? [];

    const text = await (await fetch(url)).text();

    expect(text).toContain('\nlatchkey_database_up 1\n');
    expect(text).toContain('\nlatchkey_nats_up 1\n');
    expect(text).toMatch(/^latchkey_nats_probe_seconds [0-9.e-]+$/m);
    expect(text).toMatch(/^latchkey_clock_skew_seconds -?[0-9.e-]+$/m);
  });

  test('limits hold for what a caller does at both nodes', async () => {
    const pool = new Pool({ connectionString: cluster.databaseUrl, max: 1 });
    await pool.query(`update endpoint set limits = '{"concurrentCalls":2}'`);
    await pool.end();
    const key = await newKey('busy');
    const open = [1, 2].map((id) => call(0, key, slowCall(id, 4000)));

    await expect.poll(async () => (await call(1, key)).status, patient).toBe(429);
    await Promise.all(open);
    await expect.poll(async () => (await call(1, key)).status, patient).toBe(200);
  });
});
