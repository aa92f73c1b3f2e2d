/**
 * The MCP reference server behind an agent, call by call: each passes the real proxy, the balancer, a node without the agent,
 * for every other call the node that has its session, the node with the agent, and the agent. An assistant finds there what it
 * finds when it starts the server itself.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { everything } from '#support/reference-itineraries';
import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { inherited } from '#support/programs';
import { launcher } from '#support/proxy-process';
import { natsUrl } from '#support/requirements';
import { runningAgent } from '#support/running-agent';
import { common, legacySurvey, modernSurvey } from '#support/server-survey';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const made = z.object({ key: z.string() });
const root = join(import.meta.dirname, '../../..');
const script = join(root, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const spy = join(root, 'test/support/agent-story/spied-child.ts');
const direct = { command: process.execPath, args: [script, 'stdio'] };
/** Each child has its own environment, so the answers of `get-env` differ. */
const itinerary = {
  ...everything,
  tools: everything.tools.filter(({ name }) => name !== 'get-env'),
};
await suite(['postgres', 'nats'], 'MCP reference server behind an agent of another node', () => {
  const stack = new AsyncDisposableStack();
  let cluster: NodeCluster;
  let proxy: { command: string; args: string[]; env: Record<string, string> };
  let sent: () => string;
  /** How many requests each node got. */
  const requests = { 'node-1': 0, 'node-2': 0, 'node-3': 0 };

  beforeAll(async () => {
    const { path } = stack.use(await temporaryFolder('reference'));
    let last = 0;
    cluster = stack.use(
      await nodeCluster({
        size: 3,
        args: ['--nats-url', natsUrl()],
        // The agent is at the first node only. The calls go to the others in turn.
        lead({ url, headers }) {
          if (headers.upgrade !== undefined) return 'node-1';
          last += 1;
          const name = last % 2 === 0 ? 'node-2' : 'node-3';
          if (url === '/mcp/acme/everything') requests[name] += 1;
          return name;
        },
      }),
    );
    const created = async (...words: string[]) =>
      made.parse(JSON.parse(await cluster.command([...words, '--json']))).key;
    await cluster.command(['organization', 'create', 'acme']);
    const agentKey = await created('agent', 'create', 'acme/berlin');
    await cluster.command(['server', 'create', 'acme/everything', '--agent', 'berlin']);
    const key = await created('key', 'create', 'acme/everything', '--name', 'k');
    const log = join(path, 'sent');
    const child = {
      command: process.execPath,
      args: [spy, log, process.execPath, script, 'stdio'],
    };
    stack.use(await runningAgent(cluster.base, agentKey, { everything: child }));
    sent = () => readFileSync(log, 'utf8');
    proxy = {
      command: process.execPath,
      args: [launcher, `${cluster.base}/mcp/acme/everything`],
      env: { ...inherited, HOME: path, LATCHKEY_API_KEY: key, LATCHKEY_LOG_LEVEL: 'error' },
    };
  });
  afterAll(() => stack.disposeAsync());

  test('an assistant of the older era finds what it finds without us', async () => {
    const without = await legacySurvey(new LegacyStdio(direct), itinerary);

    const through = await legacySurvey(new LegacyStdio(proxy), itinerary);

    expect(through).toEqual(without);
    expect(through['progress']).toHaveLength(3);
    expect(through['asked']).toHaveLength(4);
    expect(through['completed']).toHaveLength(2);
    expect(JSON.stringify(through['task'])).toContain('# Research Report: eras');
    expect(through['updated']).not.toEqual([]);
    expect(new Set(cluster.upgraded())).toEqual(new Set(['node-1']));
    expect(requests).toEqual({
      'node-1': 0,
      'node-2': expect.toSatisfy((count) => count > 20),
      'node-3': expect.toSatisfy((count) => count > 20),
    });
  });

  test('an assistant of the modern era finds the same through one node', async () => {
    const without = await modernSurvey(new ModernStdio(direct), itinerary);

    // Each node makes its own handshake for callers who make none, so the server's memory belongs to one node.
    const args = [...proxy.args, '--header', 'X-Test-Node: node-2'];
    const through = await modernSurvey(new ModernStdio({ ...proxy, args }), itinerary);

    expect(common(through)).toEqual(common(without));
    expect(through['asked']).toHaveLength(3);
  });

  test('a call that is cancelled is cancelled at the reference server', async () => {
    const client = new Client({ name: 'canceller', version: '1' });
    await client.connect(new LegacyStdio(proxy));
    const call = new AbortController();
    const operation = { name: 'trigger-long-running-operation', arguments: { duration: 60 } };
    const called = client.callTool(operation, undefined, { signal: call.signal });
    called.catch(() => undefined);
    await vi.waitFor(() => expect(sent()).toMatch(/"duration":60/), patient);

    call.abort('enough');

    await vi.waitFor(() => expect(sent()).toContain('"notifications/cancelled"'), patient);
    await expect(called).rejects.toThrow('enough');
    await client.close();
  });
});
