import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { mcpCall } from '#support/mcp-call';
import { type ClusterNode, nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { suite } from '#support/suite';

const madeKey = z.object({ id: z.string(), key: z.string() });

await suite('postgres', 'nodes that share a database', () => {
  let cluster: NodeCluster;
  beforeAll(async () => {
    cluster = await nodeCluster({ size: 2 });
    await cluster.command(['organization', 'create', 'acme']);
    await cluster.command(['server', 'create', 'acme/library', '--demo']);
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  const createKey = async (name: string) => {
    const text = await cluster.command(['key', 'create', 'acme/library', '--name', name, '--json']);
    return madeKey.parse(JSON.parse(text));
  };
  const endpoint = () => `${cluster.base}/mcp/acme/library`;
  const statusAt = async ({ name }: ClusterNode, key: string) =>
    (await mcpCall(endpoint(), { key, headers: { 'x-test-node': name } })).status;
  const statuses = (key: string) => Promise.all(cluster.nodes.map((node) => statusAt(node, key)));

  test('a key works on every node, and on none once its revocation is confirmed', async () => {
    const { id, key } = await createKey('everywhere');
    expect(await statuses(key)).toEqual([200, 200]);

    await cluster.command(['key', 'revoke', id]);

    expect(await statuses(key)).toEqual([401, 401]);
  });

  test('a storm of revocations: no call that starts after the answer is let in', async () => {
    const keys: z.infer<typeof madeKey>[] = [];
    for (let at = 0; at < 40; at += 1) keys.push(await createKey(`storm ${at}`));
    const revoked = new Set<string>();
    const over = new AbortController();
    const wrong: string[] = [];
    const seen = { admitted: 0, refused: 0, other: 0 };
    const caller = async (from: number) => {
      for (let at = from; !over.signal.aborted; at += 1) {
        const one = keys[(at * 7) % keys.length];
        const node = cluster.nodes[at % cluster.nodes.length];
        if (!one || !node) return;
        const wasRevoked = revoked.has(one.id);
        const status = await statusAt(node, one.key);
        if (wasRevoked && status !== 401) wrong.push(`${one.id} ${status}`);
        if (status === 200) seen.admitted += 1;
        else if (status === 401) seen.refused += 1;
        else seen.other += 1;
      }
    };
    const callers = Array.from({ length: 8 }, (_, at) => caller(at * 5));

    for (const { id } of keys) {
      await cluster.command(['key', 'revoke', id]);
      revoked.add(id);
    }
    over.abort();
    await Promise.all(callers);

    expect(wrong).toEqual([]);
    expect(seen.other).toBe(0);
    expect(seen.admitted).toBeGreaterThan(0);
    expect(seen.refused).toBeGreaterThan(0);
  });

  test('an access token of one node is valid at the others, and revoked for all', async () => {
    const text = await cluster.command([
      'client',
      'create',
      'acme/library',
      '--name',
      'app',
      '--scope',
      'mcp:tools:read',
      '--json',
    ]);
    const client = z
      .object({ client_id: z.string(), client_secret: z.string() })
      .parse(JSON.parse(text));
    const [one, other] = cluster.nodes;
    const answer = await fetch(`${cluster.base}/api/oauth/token`, {
      method: 'POST',
      headers: { 'x-test-node': one?.name ?? '' },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        ...client,
        resource: `${cluster.base}/mcp/acme/library`,
      }),
    });
    const { access_token: token } = z
      .object({ access_token: z.string() })
      .parse(await answer.json());
    const ask = async () =>
      (await mcpCall(endpoint(), { token, headers: { 'x-test-node': other?.name ?? '' } })).status;
    const before = await ask();

    await cluster.command(['client', 'revoke', client.client_id]);

    expect([before, await ask()]).toEqual([200, 401]);
  });

  test('a node that is stopped and continued lets nobody in with a key that was revoked meanwhile', async () => {
    const { id, key } = await createKey('while stopped');
    const [stopped] = cluster.nodes;
    if (!stopped) throw new Error('no node');
    expect(await statuses(key)).toEqual([200, 200]);

    stopped.program.kill('SIGSTOP');
    await cluster.command(['key', 'revoke', id]);
    stopped.program.kill('SIGCONT');

    expect(await statusAt(stopped, key)).not.toBe(200);
    await expect.poll(() => statusAt(stopped, key), patient).toBe(401);
  });

  describe('a node that is killed', () => {
    test('leaves the others serving', async () => {
      const { key } = await createKey('survivor');
      const third = await cluster.add();
      expect(await statusAt(third, key)).toBe(200);

      third.program.kill('SIGKILL');
      await third.program.exited;

      const others = cluster.nodes.filter((node) => node !== third);
      const served = await Promise.all(others.map((node) => statusAt(node, key)));

      expect(served).toEqual([200, 200]);
    });
  });
});
