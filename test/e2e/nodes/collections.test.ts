/**
 * A collection whose members are behind three agents, each connected to another node: calls reach it at random nodes, in both eras, and
 * the end of a node costs the members behind the others nothing.
 */
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { natsUrl } from '#support/requirements';
import { runningAgent } from '#support/running-agent';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const made = z.object({ key: z.string() });
const packages = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol');
const calls = {
  everything: { name: 'echo', arguments: { message: 'hello' } },
  memory: { name: 'read_graph', arguments: {} },
  filesystem: { name: 'list_allowed_directories', arguments: {} },
} as const;
type Member = keyof typeof calls;
const members = ['everything', 'memory', 'filesystem'] as const satisfies readonly Member[];

await suite(['postgres', 'nats'], 'a collection with an agent at each node', () => {
  const stack = new AsyncDisposableStack();
  let cluster: NodeCluster;
  let key: string;
  /** The node to which the balancer sends agents. */
  let agentsGoTo = 'node-1';

  beforeAll(async () => {
    const { path } = stack.use(await temporaryFolder('collection'));
    const lead = ({ headers }: { readonly headers: { readonly upgrade?: string | undefined } }) =>
      headers.upgrade === undefined ? undefined : agentsGoTo;
    cluster = stack.use(await nodeCluster({ size: 3, args: ['--nats-url', natsUrl()], lead }));
    const created = async (...words: string[]) =>
      made.parse(JSON.parse(await cluster.command([...words, '--json']))).key;
    await cluster.command(['organization', 'create', 'acme']);
    const words = { everything: ['stdio'], memory: [], filesystem: [path] };
    for (const [at, member] of members.entries()) {
      agentsGoTo = `node-${at + 1}`;
      const agentKey = await created('agent', 'create', `acme/agent-${member}`);
      await cluster.command(['server', 'create', `acme/${member}`, '--agent', `agent-${member}`]);
      const script = join(packages, `server-${member}`, 'dist/index.js');
      const child = {
        command: process.execPath,
        args: [script, ...words[member]],
        env: { MEMORY_FILE_PATH: join(path, 'memory.jsonl') },
      };
      stack.use(await runningAgent(cluster.base, agentKey, { [member]: child }));
    }
    const options = members.flatMap((member) => ['--member', member]);
    await cluster.command(['collection', 'create', 'acme/tools', ...options]);
    key = await created('key', 'create', 'acme/tools', '--name', 'k');
  });
  afterAll(() => stack.disposeAsync());

  async function connected(mode: 'auto' | 'legacy', at?: string): Promise<Client> {
    const client = new Client({ name: 'a', version: '1' }, { versionNegotiation: { mode } });
    const requestInit = { headers: { 'x-api-key': key, ...(at && { 'x-test-node': at }) } };
    const url = new URL(`${cluster.base}/mcp/acme/tools`);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
    return client;
  }

  const outcomeOf = (client: Client, member: Member): Promise<string> =>
    client.callTool(calls[member]).then(
      ({ isError }) => (isError ? 'failed' : 'answered'),
      (error: unknown) => String(error),
    );

  test.each(['auto', 'legacy'] as const)(
    'calls at random nodes reach each member (%s era)',
    async (mode) => {
      const client = await connected(mode);
      // A member whose command takes longer than others to start is added to the list later.
      await vi.waitFor(async () => {
        const { tools } = await client.listTools();
        const names = Object.values(calls).map(({ name }) => name);
        expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
      }, patient);
      const outcomes = new Set<string>();
      for (let round = 0; round < 4; round += 1) {
        const all = await Promise.all(members.map((member) => outcomeOf(client, member)));
        for (const outcome of all) outcomes.add(outcome);
      }
      await client.close();

      expect(outcomes).toEqual(new Set(['answered']));
      expect(new Set(cluster.upgraded())).toEqual(new Set(['node-1', 'node-2', 'node-3']));
    },
  );

  test('the node of one agent is killed: the members behind the others answer, and that one comes back', async () => {
    const client = await connected('auto', 'node-1');
    const others = members.filter((member) => member !== 'memory');
    agentsGoTo = 'node-3';

    cluster.nodes.find(({ name }) => name === 'node-2')?.program.kill('SIGKILL');

    const outcomes = new Set<string>();
    await vi.waitFor(async () => {
      for (const member of others) outcomes.add(await outcomeOf(client, member));
      expect(await outcomeOf(client, 'memory')).toBe('answered');
    }, patient);
    await client.close();
    expect(outcomes).toEqual(new Set(['answered']));
    expect(new Set(cluster.upgraded())).toEqual(new Set(['node-1', 'node-3']));
  });
});
