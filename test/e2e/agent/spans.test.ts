import { expect, test } from 'vitest';

import { mcpCall, modern } from '#support/mcp-call';
import { runningAgent } from '#support/running-agent';
import { runningServer } from '#support/running-server';
import { traceCollector } from '#support/trace-collector';
import { bothErasAnswer, recordingUpstream } from '#support/upstreams/recording-upstream';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const callersSpan = '00f067aa0ba902b7';

test('spans: one trace leads from the caller through the gateway and the tunnel to the local server of an agent', async () => {
  await using collector = await traceCollector();
  await using local = await recordingUpstream();
  local.answer = bothErasAnswer;
  const { env } = collector;
  await using server = await runningServer({ env });
  await server.command('organization', 'create', 'acme');
  const agentKey = Object(await server.command('agent', 'create', 'acme/berlin')).key;
  await server.command('server', 'create', 'acme/sales', '--agent', 'berlin');
  const { key } = Object(await server.command('key', 'create', 'acme/sales', '--name', 'k'));
  await using agent = await runningAgent(server.base, agentKey, { sales: { url: local.url } }, env);

  const call = modern('tools/call', { name: 'echo', arguments: { text: 'an argument' } });
  const traceparent = `00-${traceId}-${callersSpan}-01`;
  const { status } = await mcpCall(`${server.base}/mcp/acme/sales`, {
    key,
    ...call,
    headers: { ...call.headers, traceparent: `00-${traceId}-${'9'.repeat(16)}-01` },
    body: call.body.replace('"_meta":{', `"_meta":{"traceparent":"${traceparent}",`),
  });
  await agent.program.end();
  await server.program.end();

  expect(status).toBe(200);
  const spans = collector.spans.filter((span) => span.traceId === traceId);
  const below = (parent: string | undefined) => spans.find((s) => s.parentSpanId === parent);
  const gateway = below(callersSpan);
  const tunnel = below(gateway?.spanId);
  const atAgent = below(tunnel?.spanId);
  const reached = local.requests.find(({ body }) => body.includes('an argument'));
  expect([gateway, tunnel, atAgent].map((span) => [span?.service, span?.name])).toEqual([
    ['latchkey-server', 'tools/call echo'],
    ['latchkey-server', 'tools/call echo'],
    ['latchkey-agent', 'tools/call echo'],
  ]);
  expect([tunnel, atAgent].map((span) => span?.attributes)).toMatchObject([
    { 'latchkey.upstream.kind': 'agent', 'network.transport': 'tcp' },
    { 'latchkey.upstream.kind': 'http', 'network.transport': 'tcp' },
  ]);
  expect(spans).toHaveLength(3);
  const continued = `00-${traceId}-${atAgent?.spanId}-01`;
  expect(reached?.headers['traceparent']).toBe(continued);
  expect(reached?.body.toString()).toContain(`"traceparent":"${continued}"`);
  for (const kept of [agentKey, key, 'an argument', local.url]) {
    expect(collector.received()).not.toContain(kept);
  }
});
