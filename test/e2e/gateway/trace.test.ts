import { afterAll, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { acceptsBoth, initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import {
  bothErasAnswer,
  legacyAnswer,
  recordingUpstream,
  type Answer,
} from '#support/upstreams/recording-upstream';

const upstreams = {
  fixture: await recordingUpstream(),
  both: await recordingUpstream(),
  newer: await recordingUpstream(),
};
const modernAnswer: Answer = (request, response) =>
  request.body.includes('"initialize"')
    ? void response.writeHead(400).end()
    : bothErasAnswer(request, response);
upstreams.fixture.answer = legacyAnswer;
upstreams.both.answer = bothErasAnswer;
upstreams.newer.answer = modernAnswer;
const gateway = await gatewayUnderTest({ upstreamUrl: upstreams.fixture.url });
const keys = { fixture: gateway.key, both: '', newer: '' };
for (const name of ['both', 'newer'] as const) {
  await gateway.command('server', 'create', `acme/${name}`, '--http-url', upstreams[name].url);
  keys[name] = (await gateway.newKey(`acme/${name}`)).key;
}

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  for (const made of Object.values(upstreams)) await made[Symbol.asyncDispose]();
});

const traceOf = (n: number) => `00-4bf92f3577b34da6a3ce929d0e0e4736-${`${n}`.padStart(16, '0')}-01`;
const eitherType = { accept: acceptsBoth };

test.for(['fixture', 'both', 'newer'] as const)(
  'trace context: the upstream %s gets it with each call, without baggage, whatever era either side uses',
  async (name) => {
    const endpoint = gateway.endpoint.replace('fixture', name);
    const key = keys[name];
    const opened = await mcpCall(endpoint, {
      key,
      headers: eitherType,
      body: initialize('2025-11-25'),
    });
    const sessionId = opened.headers.get('mcp-session-id');
    const session = {
      ...eitherType,
      'mcp-protocol-version': '2025-11-25',
      ...(sessionId !== null && { 'mcp-session-id': sessionId }),
    };
    const params = { name: 'echo', arguments: {} };
    const body = rpc('tools/call', params);
    let calls = 0;
    for (const call of [{ body }, { body, headers: session }, modern('tools/call', params)]) {
      for (const tracestate of ['congo=1', 'no state']) {
        calls += 1;
        const trace = { traceparent: traceOf(calls), tracestate, baggage: 'user=dana' };
        const headers = { ...('headers' in call && call.headers), ...trace };

        expect(await mcpCall(endpoint, { key, ...call, headers })).toMatchObject({ status: 200 });

        const reached = upstreams[name].requests.findLast(({ body: sent }) =>
          sent.includes('tools/call'),
        );
        expect(reached?.headers['traceparent']).toBe(traceOf(calls));
        expect(reached?.headers['tracestate']).toBe(
          tracestate === 'congo=1' ? tracestate : undefined,
        );
        expect(reached?.headers).not.toHaveProperty('baggage');
      }
    }
  },
);
