import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { mcpCall, modern } from '#support/mcp-call';
import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { rawAgent, type RawAgentOptions } from '#support/raw-agent';
import { natsUrl } from '#support/requirements';
import { suite } from '#support/suite';

const made = z.object({ id: z.string(), key: z.string() });

await suite(['postgres', 'nats'], 'agents of another node', () => {
  let cluster: NodeCluster;
  let agentKey: string;
  let key: string;

  beforeAll(async () => {
    cluster = await nodeCluster({ size: 2, args: ['--nats-url', natsUrl()] });
    const created = async (...words: string[]) =>
      made.parse(JSON.parse(await cluster.command([...words, '--json'])));
    await cluster.command(['organization', 'create', 'acme']);
    agentKey = (await created('agent', 'create', 'acme/berlin')).key;
    await cluster.command(['server', 'create', 'acme/sales', '--agent', 'berlin']);
    key = (await created('key', 'create', 'acme/sales', '--name', 'k')).key;
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  const endpoint = () => `${cluster.base}/mcp/acme/sales`;
  /** Connects an agent to a node, and waits until both nodes find it there. */
  const connect = async (node: number, but: RawAgentOptions = {}) => {
    const agent = await rawAgent(`http://127.0.0.1:${cluster.nodes[node]?.port}`, {
      key: agentKey,
      servers: ['sales'],
      ...but,
      headers: { host: new URL(cluster.base).host },
    });
    const statuses = async () => [(await call(0)).status, (await call(1)).status];
    await expect.poll(statuses, patient).toEqual([200, 200]);
    return agent;
  };
  const call = (node: number, nonce = 'n') => {
    const { body, headers } = modern('tools/call', { name: 'echo', arguments: { nonce } });
    const at = { 'x-test-node': cluster.nodes[node]?.name ?? '' };
    return mcpCall(endpoint(), { key, body, headers: { ...headers, ...at } });
  };

  test('a call at a node without the agent goes through the node that has it', async () => {
    await using agent = await connect(0);
    const { length } = agent.frames;

    const answers = [await call(0, 'here'), await call(1, 'there')];

    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(answers[1]?.text).toContain('there');
    expect(agent.frames.length).toBeGreaterThan(length + 2);
  });

  test('a question that is longer than the window passes between the nodes', async () => {
    const reply = (body: string) =>
      JSON.stringify({ jsonrpc: '2.0', id: 1, result: { read: body.length } });
    await using _agent = await connect(0, { reply });

    const answer = await call(1, 'x'.repeat(200_000));

    const { read } = z
      .object({ result: z.object({ read: z.number() }) })
      .parse(JSON.parse(answer.text)).result;
    expect(answer.status).toBe(200);
    expect(read).toBeGreaterThan(200_000);
  });

  test('an agent that is at no node is offline, at every node', async () => {
    const answers = [await call(0), await call(1)];

    expect(answers.map(({ status }) => status)).toEqual([503, 503]);
    expect(answers[1]?.text).toContain('offline');
  });

  test('an agent that moves to another node is found there', async () => {
    {
      await using _agent = await connect(0);
      expect((await call(1)).status).toBe(200);
    }
    await using again = await connect(1);
    const { length } = again.frames;

    expect((await call(0, 'moved')).text).toContain('moved');
    expect(again.frames.length).toBeGreaterThan(length);
  });
});
