import { expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { proxyProcess } from '#support/proxy-process';
import { traceCollector } from '#support/trace-collector';
import { bothErasAnswer, recordingUpstream } from '#support/upstreams/recording-upstream';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const assistantsSpan = '00f067aa0ba902b7';
const traceparent = `00-${traceId}-${assistantsSpan}-01`;

test('spans: one trace leads from the assistant through the proxy and the gateway to the upstream', async () => {
  await using collector = await traceCollector();
  await using upstream = await recordingUpstream();
  upstream.answer = bothErasAnswer;
  const { env } = collector;
  await using gateway = await gatewayUnderTest({ upstreamUrl: upstream.url, env });
  await using proxy = proxyProcess({
    args: [gateway.endpoint],
    env: { ...env, LATCHKEY_API_KEY: gateway.key },
  });
  await proxy.handshake();

  const params = { name: 'echo', arguments: { text: 'an argument' }, _meta: { traceparent } };
  const answer = await proxy.request('tools/call', params);
  proxy.hangUp();
  await proxy.ended;
  await gateway.program.end();

  expect(answer).toHaveProperty('result');
  const spans = collector.spans.filter((span) => span.traceId === traceId);
  const below = (parent: string | undefined) => spans.find((s) => s.parentSpanId === parent);
  const call = below(assistantsSpan);
  const request = below(call?.spanId);
  const atGateway = below(request?.spanId);
  const toUpstream = below(atGateway?.spanId);
  const reached = upstream.requests.findLast(({ body }) => body.includes('an argument'));
  expect([call, request, atGateway, toUpstream].map((s) => [s?.service, s?.name])).toEqual([
    ['latchkey', 'tools/call echo'],
    ['latchkey', 'tools/call echo'],
    ['latchkey-server', 'tools/call echo'],
    ['latchkey-server', 'tools/call echo'],
  ]);
  const continued = `00-${traceId}-${toUpstream?.spanId}-01`;
  expect(reached?.headers['traceparent']).toBe(continued);
  expect(reached?.body.toString()).toContain(`"traceparent":"${continued}"`);
  expect(spans.flatMap(({ links }) => links)).toEqual([]);
  for (const kept of [gateway.key, 'an argument', gateway.endpoint, upstream.url]) {
    expect(collector.received()).not.toContain(kept);
  }
});

test('spans: a proxy that cannot use the variables for traces logs it, and continues', async () => {
  await using upstream = await recordingUpstream();
  upstream.answer = bothErasAnswer;
  await using proxy = proxyProcess({
    args: [upstream.url],
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
  });

  const { result } = await proxy.handshake();

  expect(result).toBeDefined();
  expect(proxy.stderr()).toContain("OTEL_EXPORTER_OTLP_PROTOCOL 'grpc' is not supported");
});
