import { afterAll, beforeAll, expect, test } from 'vitest';

import { gatewayUnderTest, type GatewayUnderTest } from '#support/gateway-under-test';
import { freePort } from '#support/loopback';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { traceCollector, type TraceCollector } from '#support/trace-collector';
import {
  bothErasAnswer,
  recordingUpstream,
  type RecordingUpstream,
} from '#support/upstreams/recording-upstream';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const callersSpan = '00f067aa0ba902b7';
const traceparent = `00-${traceId}-${callersSpan}-01`;

/** A server that answers, refuses, and is stopped, which delivers its spans. */
async function callsOf(env: Readonly<Record<string, string>>, upstream: RecordingUpstream) {
  await using gateway = await gatewayUnderTest({ upstreamUrl: upstream.url, env });
  const { endpoint, key } = gateway;
  const echo = modern('tools/call', { name: 'echo', arguments: { text: 'an argument' } });
  const headers = { ...echo.headers, traceparent, tracestate: 'congo=1' };
  const answers = [
    await mcpCall(endpoint, { key, ...echo, headers }),
    await mcpCall(endpoint, { key: 'mcp_wrong', ...echo, headers }),
    await mcpCall(endpoint, { key, headers: { traceparent }, body: rpc('no such method') }),
    await mcpCall(endpoint, { key, ...modern('tools/call', { name: 'echo', arguments: {} }) }),
  ];
  const reached = upstream.requests.find(({ body }) => body.includes('an argument'));
  await stopped(gateway);
  return { gateway, reached, statuses: answers.map(({ status }) => status) };
}

async function stopped({ program }: GatewayUnderTest): Promise<void> {
  expect((await program.end()).code).toBe(0);
}

let collector: TraceCollector;
let upstream: RecordingUpstream;
let calls: Awaited<ReturnType<typeof callsOf>>;

beforeAll(async () => {
  collector = await traceCollector();
  upstream = await recordingUpstream();
  upstream.answer = bothErasAnswer;
  calls = await callsOf(collector.env, upstream);
});
afterAll(async () => {
  await collector[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

test('spans: a call and its request to the upstream continue the trace of the caller, one below the other', () => {
  const [request, call, ...rest] = collector.spans.filter(
    (span) => span.traceId === traceId && span.name !== 'POST /mcp',
  );

  expect(rest).toEqual([]);
  expect(call).toMatchObject({
    service: 'latchkey-server',
    name: 'tools/call echo',
    kind: 2,
    isError: false,
    parentSpanId: callersSpan,
    attributes: {
      'latchkey.server': 'acme/fixture',
      'mcp.method.name': 'tools/call',
      'gen_ai.tool.name': 'echo',
      'gen_ai.operation.name': 'execute_tool',
      'mcp.protocol.version': '2026-07-28',
      'jsonrpc.request.id': '1',
      'network.transport': 'tcp',
      'client.address': '127.0.0.1',
      'http.request.method': 'POST',
    },
  });
  expect(request).toMatchObject({
    name: 'tools/call echo',
    kind: 3,
    parentSpanId: call?.spanId,
    attributes: {
      'latchkey.upstream.kind': 'http',
      'mcp.method.name': 'tools/call',
      'gen_ai.tool.name': 'echo',
      'gen_ai.operation.name': 'execute_tool',
      'mcp.protocol.version': '2026-07-28',
      'jsonrpc.request.id': '1',
      'network.transport': 'tcp',
      'http.response.status_code': 200,
    },
  });
  expect(call?.attributes).not.toHaveProperty('mcp.session.id');
  expect(calls.reached?.headers).toMatchObject({
    traceparent: `00-${traceId}-${request?.spanId}-01`,
    tracestate: 'congo=1',
  });
});

test('spans: a refused call has its code as the reason, and an unknown method stays out of the name', () => {
  expect(calls.statuses[2]).toBeGreaterThanOrEqual(200);
  const refused = collector.spans.filter(({ name }) => name === 'POST /mcp');

  expect(refused).toMatchObject([
    {
      traceId,
      isError: true,
      attributes: {
        'latchkey.server': 'acme/fixture',
        'latchkey.refusal': 'unknown_method',
        'error.type': '-32601',
        'rpc.response.status_code': '-32601',
      },
    },
  ]);
});

test('spans: a call without a trace begins one of its own; one without a valid credential makes none', () => {
  const others = collector.spans.filter((span) => span.traceId !== traceId);
  const roots = others.filter(({ parentSpanId }) => parentSpanId === undefined);

  expect(calls.statuses).toEqual([200, 401, expect.any(Number), 200]);
  expect(roots.map(({ name }) => name)).toEqual(['tools/call echo']);
  expect(
    collector.spans.filter(({ name, kind }) => name === 'tools/call echo' && kind === 2),
  ).toHaveLength(2);
});

test('spans: no credential, argument or method that is no name is in anything that the collector receives', () => {
  const received = collector.received();

  expect(received).toContain('acme/fixture');
  for (const kept of [calls.gateway.key, 'mcp_', 'an argument', 'no such method', upstream.url]) {
    expect(received).not.toContain(kept);
  }
});

test('spans: a collector that is down fails no call and does not keep the server from stopping', async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}`;

  const { statuses } = await callsOf({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }, upstream);

  expect(statuses).toEqual(calls.statuses);
});

test('spans: a sampler that keeps none still passes the trace on, marked as not kept', async () => {
  await using unused = await traceCollector();
  const env = { ...unused.env, OTEL_TRACES_SAMPLER: 'always_off' };
  await using other = await recordingUpstream();
  other.answer = bothErasAnswer;

  const { reached } = await callsOf(env, other);

  expect(unused.spans).toEqual([]);
  expect(reached?.headers['traceparent']).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
});
