import { createHash } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { acceptsBoth, initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import { traceCollector, type CollectedSpan } from '#support/trace-collector';
import {
  legacyAnswer,
  recordingUpstream,
  sendJson,
  type Answer,
  type Recorded,
} from '#support/upstreams/recording-upstream';

/** Answers calls of `fails` with a failed tool, of `refuses` with an error, and of `strange` with an error without a number. */
const answer: Answer = (request, response) => {
  const message = JSON.parse(request.body.toString() || '{}');
  const answers: Readonly<Record<string, string>> = {
    fails: '"result":{"content":[],"isError":true}',
    refuses: '"error":{"code":-32010,"message":"no"}',
    strange: '"error":{"code":"sk_secret","message":"no"}',
  };
  const chosen = answers[message.params?.name];
  if (message.method === 'initialize') response.setHeader('mcp-session-id', 'upstream-session');
  if (chosen === undefined) return legacyAnswer(request, response);
  sendJson(response, `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},${chosen}}`);
};

/** The id by which the calls below are found. */
const ids = {
  fails: 'call-1',
  refuses: '2',
  strange: '3',
  prompt: '4',
  resource: '5',
};
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const inMeta = `00-${traceId}-00f067aa0ba902b7-01`;
const inHeader = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
/** Calls that name a span in `_meta`, where the last one names none that is well-formed. */
const named = { modern: inMeta, legacy: inMeta, escaped: inMeta, malformed: 'no trace' } as const;
let spans: readonly CollectedSpan[];
let clientSpans: readonly CollectedSpan[];
let sent: readonly Recorded[];
let received: string;
let sessionId: string;

beforeAll(async () => {
  await using collector = await traceCollector();
  await using upstream = await recordingUpstream();
  upstream.answer = answer;
  await using gateway = await gatewayUnderTest({ upstreamUrl: upstream.url, env: collector.env });
  const { endpoint, key } = gateway;
  const eitherType = { accept: acceptsBoth };
  const opened = await mcpCall(endpoint, { key, headers: eitherType, body: initialize() });
  sessionId = opened.headers.get('mcp-session-id') ?? '';
  const headers = {
    ...eitherType,
    'mcp-session-id': sessionId,
    'mcp-protocol-version': '2025-06-18',
  };
  for (const body of [
    rpc('tools/call', { name: 'fails' }, ids.fails),
    rpc('tools/call', { name: 'refuses' }, Number(ids.refuses)),
    rpc('tools/call', { name: 'strange' }, Number(ids.strange)),
    rpc('prompts/get', { name: 'greeting' }, Number(ids.prompt)),
    rpc('resources/read', { uri: 'file:///private' }, Number(ids.resource)),
    rpc('tools/call', { name: 'a secret name' }, 'a secret id'),
  ]) {
    await mcpCall(endpoint, { key, headers, body });
  }
  await mcpCall(endpoint, { key, ...modern('tools/call', { name: 'refuses' }, 7) });
  const trace = { traceparent: inHeader, tracestate: 'header=1' };
  for (const [id, traceparent] of Object.entries(named)) {
    const call = modern('tools/call', { name: 'echo', arguments: { big: '12345678901234567890' } });
    const meta = { traceparent, tracestate: 'meta=1', other: id };
    const body = (id === 'legacy' ? rpc('tools/call', { name: 'echo', _meta: {} }) : call.body)
      .replace('"id":1', `"id": "${id}"`)
      .replace('"_meta":{', (found) => `${found}${JSON.stringify(meta).slice(1, -1)},`)
      .replace(',}', '}')
      .replace('"00-', id === 'escaped' ? String.raw`"\u0030\u0030-` : '"00-');
    const ofEra = id === 'legacy' ? headers : call.headers;
    await mcpCall(endpoint, { key, headers: { ...ofEra, ...trace }, body });
  }
  await mcpCall(endpoint, { key, headers: { 'content-type': 'text/plain', ...trace } });
  await gateway.program.end();
  sent = upstream.requests;
  clientSpans = collector.spans.filter(({ kind }) => kind === 3);
  spans = collector.spans.filter(({ kind }) => kind === 2);
  received = collector.received();
});

const spanOf = (id: string) =>
  spans.find(({ attributes }) => attributes['jsonrpc.request.id'] === id);

test('spans: a tool that failed is a tool_error without a code, although JSON-RPC and HTTP report success', () => {
  const failed = spanOf(ids.fails);

  expect(failed).toMatchObject({
    name: 'tools/call fails',
    isError: true,
    attributes: { 'error.type': 'tool_error', 'gen_ai.operation.name': 'execute_tool' },
  });
  expect(failed?.attributes).not.toHaveProperty('rpc.response.status_code');
  expect(failed?.attributes).not.toHaveProperty('latchkey.refusal');
});

test('spans: an error of the MCP server has its JSON-RPC code, in either era, and no other text that stands there', () => {
  const code = { 'error.type': '-32010', 'rpc.response.status_code': '-32010' };

  expect(spanOf(ids.refuses)).toMatchObject({ isError: true, attributes: code });
  expect(spanOf('7')).toMatchObject({
    isError: true,
    attributes: { ...code, 'mcp.protocol.version': '2026-07-28' },
  });
  expect(spanOf(ids.strange)?.attributes).toMatchObject({ 'error.type': '_OTHER' });
  expect(received).not.toContain('sk_secret');
});

test('spans: a prompt is named, and is no tool; a resource is not named', () => {
  const prompt = spanOf(ids.prompt);
  const resource = spanOf(ids.resource);

  expect(prompt).toMatchObject({
    name: 'prompts/get greeting',
    attributes: { 'mcp.method.name': 'prompts/get', 'gen_ai.prompt.name': 'greeting' },
  });
  expect(prompt?.attributes).not.toHaveProperty('gen_ai.tool.name');
  expect(prompt?.attributes).not.toHaveProperty('gen_ai.operation.name');
  expect(resource?.name).toBe('resources/read');
  expect(received).not.toContain('file:///private');
});

test('spans: a name or id that could be anything is left out', () => {
  const unnamed = spans.filter(({ name }) => name === 'tools/call');

  expect(unnamed).toHaveLength(1);
  expect(unnamed[0]?.attributes).not.toHaveProperty('jsonrpc.request.id');
  expect(received).not.toContain('a secret');
});

test('spans: calls of a session have the hash of its id in common, never the id; others have none', () => {
  const hash = createHash('sha256').update(sessionId).digest('hex').slice(0, 16);

  expect(sessionId).not.toBe('');
  expect(spanOf(ids.fails)?.attributes).toMatchObject({
    'mcp.session.id': hash,
    'mcp.protocol.version': '2025-06-18',
  });
  expect(spanOf(ids.prompt)?.attributes).toMatchObject({ 'mcp.session.id': hash });
  expect(spanOf('7')?.attributes).not.toHaveProperty('mcp.session.id');
  expect(received).not.toContain(sessionId);
});

test.for(['modern', 'legacy', 'escaped'] as const)(
  'spans: the span that _meta names is the parent, and the one that the headers name is linked (%s)',
  (id) => {
    const span = spanOf(id);
    const request = clientSpans.find(({ parentSpanId }) => parentSpanId === span?.spanId);
    const reached = sent.find(({ body }) => body.includes(`"other":"${id}"`));

    expect(span).toMatchObject({ traceId, parentSpanId: '00f067aa0ba902b7' });
    expect(span?.links).toMatchObject([{ traceId: '1'.repeat(32), spanId: '2'.repeat(16) }]);
    const traceparent = `00-${traceId}-${request?.spanId}-01`;
    expect(reached?.headers).toMatchObject({ traceparent, tracestate: 'meta=1' });
    expect(reached?.body.toString()).toContain(
      `{"traceparent":"${traceparent}","tracestate":"meta=1","other":"${id}"`,
    );
  },
);

test('spans: what is no trace in _meta is neither continued nor changed, and the headers name the parent', () => {
  const span = spanOf('malformed');
  const reached = sent.find(({ body }) => body.includes('"other":"malformed"'));

  expect(span).toMatchObject({ traceId: '1'.repeat(32), parentSpanId: '2'.repeat(16), links: [] });
  expect(reached?.headers).toMatchObject({ tracestate: 'header=1' });
  expect(reached?.body.toString()).toContain('{"traceparent":"no trace","tracestate":"meta=1"');
});

test('spans: a call that is refused before its message is read has one, below that of the headers', () => {
  const refused = spans.filter((span) => span.attributes['latchkey.refusal'] !== undefined);

  expect(refused).toMatchObject([
    {
      name: 'POST /mcp',
      parentSpanId: '2'.repeat(16),
      attributes: { 'latchkey.refusal': 'unsupported_media_type', 'error.type': '-32600' },
    },
  ]);
});
