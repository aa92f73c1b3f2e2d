import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { initialize, mcpCall, rpc } from '#support/mcp-call';
import { type ClusterNode, nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { natsUrl } from '#support/requirements';
import { runningAgent } from '#support/running-agent';
import { suite } from '#support/suite';
import { traceCollector, type TraceCollector } from '#support/trace-collector';
import { visitor } from '#support/visitor';
import {
  answerInSessions,
  recordingUpstream,
  type RecordingUpstream,
} from '#support/upstreams/recording-upstream';

const made = z.object({ id: z.string(), key: z.string() });
const protocol = '2025-06-18';
const person = { email: 'dana@example.com', password: 'correct horse battery' };
const accept = 'application/json, text/event-stream';

await suite(['postgres', 'nats'], 'an agent at several nodes', () => {
  const stack = new AsyncDisposableStack();
  let cluster: NodeCluster;
  let collector: TraceCollector;
  let upstream: RecordingUpstream;
  let agentKey: string;
  let key: string;

  beforeAll(async () => {
    upstream = stack.use(await recordingUpstream());
    collector = stack.use(await traceCollector());
    const { env } = collector;
    cluster = stack.use(await nodeCluster({ size: 3, args: ['--nats-url', natsUrl()], env }));
    const created = async (...words: string[]) =>
      made.parse(JSON.parse(await cluster.command([...words, '--json'])));
    await cluster.command(['organization', 'create', 'acme']);
    agentKey = (await created('agent', 'create', 'acme/berlin')).key;
    await cluster.command(['server', 'create', 'acme/sales', '--agent', 'berlin']);
    key = (await created('key', 'create', 'acme/sales', '--name', 'k')).key;
    const { email, password } = person;
    const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await cluster.command(words, `${password}\n`);
    answerInSessions(upstream);
  });
  afterAll(() => stack.disposeAsync());

  const call = (node: ClusterNode, body: string, headers: Record<string, string> = {}) =>
    mcpCall(`${cluster.base}/mcp/acme/sales`, {
      key,
      headers: { accept, ...headers, 'x-test-node': node.name },
      body,
    });

  /** Opens a session at a node. A node without a tunnel finds the agent a moment after it has connected to another one. */
  const session = (node: ClusterNode) =>
    vi.waitFor(async () => {
      const opened = await call(node, initialize(protocol));
      expect(opened.status).toBe(200);
      return {
        'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
        'mcp-protocol-version': protocol,
      };
    }, patient);

  const nodeCalled = (name: string | undefined): ClusterNode => {
    const node = cluster.nodes.find((one) => one.name === name);
    if (!node) throw new Error(`no node ${name}`);
    return node;
  };
  const nodesWithTunnel = () => [...new Set(cluster.upgraded())].toSorted();
  const times = (nonce: string) =>
    upstream.requests.filter(({ body }) => body.includes(nonce)).length;

  test('pages of a node without a tunnel show the agent, its server and its tools as connected', async () => {
    const dana = visitor(cluster.base);
    await dana.signIn(person.email, person.password);
    const page = async ({ name }: ClusterNode, path: string) =>
      (await dana.get(`/dashboard/acme${path}`, { 'x-test-node': name })).text();
    const [anyNode] = cluster.nodes;
    if (!anyNode) throw new Error('no node');
    const waiting = await page(anyNode, '/servers/sales');
    await using _agent = await runningAgent(cluster.base, agentKey, {
      sales: { url: upstream.url },
    });
    await vi.waitFor(() => expect(nodesWithTunnel()).toHaveLength(2), patient);
    const third = cluster.nodes.find(({ name }) => !nodesWithTunnel().includes(name));
    if (!third) throw new Error('all nodes have a tunnel');

    await vi.waitFor(async () => {
      const agent = await page(third, '/agents/berlin');
      expect(agent).toContain('Connected');
      expect(agent).toMatch(/Connections[^0-9]*2/);
    }, patient);
    await vi.waitFor(
      async () => expect(await page(third, '/servers/sales')).toContain('Available'),
      patient,
    );
    const tools = await page(third, '/servers/sales/try');
    const csrf = /name="csrf_token" value="([^"]+)"/.exec(tools)?.[1] ?? '';
    const tried = await dana.post(
      '/dashboard/acme/servers/sales/try',
      { csrf_token: csrf, tool: 'echo' },
      { 'x-test-node': third.name },
    );

    expect(waiting).not.toContain('Available');
    expect(tools).toContain('secret');
    expect(tried.status).toBe(200);
    expect(times('"tools/call"')).toBe(1);
  });

  test('one trace leads from a node without a tunnel through another node to the agent', async () => {
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;
    const { env } = collector;
    const servers = { sales: { url: upstream.url } };
    await using agent = await runningAgent(cluster.base, agentKey, servers, env);
    await vi.waitFor(() => expect(nodesWithTunnel()).toHaveLength(2), patient);
    const third = cluster.nodes.find(({ name }) => !nodesWithTunnel().includes(name));
    if (!third) throw new Error('all nodes have a tunnel');
    const inSession = await session(third);

    const called = await call(third, rpc('tools/call', { name: 'echo', arguments: {} }), {
      ...inSession,
      traceparent,
    });
    // The agent sends its remaining spans when it ends.
    await agent.program.end();

    expect(called.status).toBe(200);
    const chain = () => {
      const below = (parent: string | undefined) =>
        collector.spans.find((span) => span.parentSpanId === parent);
      const gateway = below('00f067aa0ba902b7');
      const tunnel = below(gateway?.spanId);
      return [gateway, tunnel, below(tunnel?.spanId)];
    };
    await vi.waitFor(() => {
      expect(chain().map((span) => [span?.service, span?.name, span?.traceId])).toEqual([
        ['latchkey-server', 'tools/call echo', traceId],
        ['latchkey-server', 'tools/call echo', traceId],
        ['latchkey-agent', 'tools/call echo', traceId],
      ]);
    }, patient);
  });

  test('an agent has tunnels to two nodes; when one dies, the next call of a session goes through the other', async () => {
    await using _agent = await runningAgent(cluster.base, agentKey, {
      sales: { url: upstream.url },
    });
    await vi.waitFor(() => expect(nodesWithTunnel()).toHaveLength(2), patient);
    const [dying, living] = nodesWithTunnel().map(nodeCalled);
    const third = cluster.nodes.find((node) => node !== dying && node !== living);
    if (!dying || !living || !third) throw new Error('one node has no tunnel');
    // Each session began through a random one of the two nodes with a tunnel.
    const sessions = await Promise.all(Array.from({ length: 12 }, () => session(third)));
    const callAll = (nonce: string) =>
      Promise.all(
        sessions.map((inSession, at) =>
          call(third, rpc('tools/list', { nonce: `${nonce} ${at}.` }), inSession),
        ),
      );
    const before = await callAll('before');

    dying.program.kill('SIGKILL');
    await dying.program.exited;
    const after = await callAll('after');

    expect(before.map(({ status }) => status)).toEqual(sessions.map(() => 200));
    expect(after.map(({ status }) => status)).toEqual(sessions.map(() => 200));
    expect(sessions.map((_, at) => times(`after ${at}.`))).toEqual(sessions.map(() => 1));
    const left = [living.name, third.name].toSorted();
    await vi.waitFor(() => expect(nodesWithTunnel()).toEqual(left), patient);
  });
});
