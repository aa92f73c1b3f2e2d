import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { mcpCall } from '#support/mcp-call';
import { type ClusterNode, nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { runProgram } from '#support/processes';
import { serverLauncher } from '#support/programs';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

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

  test('all nodes print the same link for the first owner', () => {
    const links = cluster.nodes.map(
      ({ program }) => /\S+\/set-up\/\S+/.exec(program.stdout)?.[0] ?? 'none',
    );

    expect(new Set(links).size).toBe(1);
    expect(links[0]).toContain(cluster.base);
  });

  test('a node with another master key refuses to start', async () => {
    await using folder = await temporaryFolder('stranger');
    const file = join(folder.path, 'master.key');
    writeFileSync(file, randomBytes(32).toString('base64'), { mode: 0o600 });
    const words = ['start', '--port', '0', '--base-url', cluster.base, '--node-name', 'stranger'];
    const at = ['--master-key-file', file, '--data-dir', join(folder.path, 'data')];

    const { code, stderr, stdout } = await runProgram(process.execPath, {
      args: [serverLauncher, ...words, ...at],
      env: { LATCHKEY_DATABASE_URL: cluster.databaseUrl },
    });

    expect(code).toBe(1);
    expect(stdout).not.toContain('listening');
    expect(stderr).toContain('the master key is not the one of this installation');
    expect(stderr).toContain('--master-key-file');
  });

  test('a storm of revocations: no call that starts after the answer is admitted', async () => {
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

  const created = z.object({ client_id: z.string(), client_secret: z.string() });
  const createClient = async (name: string) => {
    const words = ['client', 'create', 'acme/library', '--name', name, '--scope', 'mcp:tools:read'];
    return created.parse(JSON.parse(await cluster.command([...words, '--json'])));
  };
  const tokenOf = async (client: z.infer<typeof created>, node: ClusterNode | undefined) => {
    const answer = await fetch(`${cluster.base}/api/oauth/token`, {
      method: 'POST',
      headers: { 'x-test-node': node?.name ?? '' },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        ...client,
        resource: endpoint(),
      }),
    });
    return z.object({ access_token: z.string() }).parse(await answer.json()).access_token;
  };

  test('an access token of one node is valid at the others, and revoked for all', async () => {
    const client = await createClient('app');
    const [one, other] = cluster.nodes;
    const token = await tokenOf(client, one);
    const ask = async () =>
      (await mcpCall(endpoint(), { token, headers: { 'x-test-node': other?.name ?? '' } })).status;
    const before = await ask();

    await cluster.command(['client', 'revoke', client.client_id]);

    expect([before, await ask()]).toEqual([200, 401]);
  });

  test('a new signing key is published by every node before one signs with it', async () => {
    const client = await createClient('rotated');
    const [one, other] = cluster.nodes;
    const published = async () => {
      const headers = { 'x-test-node': other?.name ?? '' };
      const answer = await fetch(`${cluster.base}/.well-known/jwks.json`, { headers });
      return answer.text();
    };
    const words = ['signing-key', 'rotate', '--master-key-file', cluster.masterKeyFile, '--json'];
    const made = z.object({ kid: z.string() });
    const { kid } = made.parse(JSON.parse(await cluster.command(words)));

    const signed = await vi.waitFor(async () => {
      const token = await tokenOf(client, one);
      expect(decodeProtectedHeader(token).kid).toBe(kid);
      return { token, known: await published() };
    }, patient);

    expect(signed.known).toContain(kid);
    const headers = { 'x-test-node': other?.name ?? '' };
    expect((await mcpCall(endpoint(), { token: signed.token, headers })).status).toBe(200);
  });

  test('a node that is suspended and resumed admits no key that was revoked in the meantime', async () => {
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
    test('does not affect the others', async () => {
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
