import { gzipSync } from 'node:zlib';
import type { ServerResponse } from 'node:http';

import { afterAll, beforeEach, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { recordingUpstream, type Answer } from '#support/upstreams/recording-upstream';
import { patient } from '#support/patient';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { endpoint, key } = gateway;
const usual = upstream.answer;

beforeEach(() => {
  upstream.answer = usual;
  upstream.requests.splice(0);
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** Answers the handshake as usual, and every later request by `act`. */
function afterHandshake(act: (response: ServerResponse, id: string) => void): Answer {
  return (request, response) => {
    const text = request.body.toString();
    const id = /"id":(\d+)/.exec(text)?.[1];
    if (id === undefined) usual(request, response);
    else act(response, id);
  };
}

const result = (id: string) => `{"jsonrpc":"2.0","id":${id},"result":{"tools":[]}}`;

test('hostile upstream: compression is not requested, and a compressed answer gets 502', async () => {
  upstream.answer = afterHandshake((response, id) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
    response.end(gzipSync(result(id)));
  });

  const plain = await mcpCall(endpoint, { key });
  const newer = await mcpCall(endpoint, { key, ...modern('tools/list') });

  expect([plain.status, plain.errorCode]).toEqual([502, -32000]);
  expect([newer.status, newer.errorCode]).toEqual([502, -32000]);
  const codings = upstream.requests.map(({ headers }) => headers['accept-encoding']);
  expect(new Set(codings)).toEqual(new Set(['identity']));
});

test.for<[name: string, status: number, headers: Record<string, string>, body: string]>([
  ['HTML', 200, { 'content-type': 'text/html' }, '<h1>hello</h1>'],
  ['no media type', 200, {}, 'hello'],
  ['a redirect', 302, { location: 'http://127.0.0.1:1/evil' }, ''],
  ['a permanent redirect', 308, { location: '/elsewhere' }, ''],
  ['401', 401, { 'www-authenticate': 'Bearer', 'content-type': 'application/json' }, '{}'],
  ['403', 403, { 'content-type': 'application/json' }, '{"error":"no"}'],
  ['500', 500, { 'content-type': 'text/plain' }, 'at internal.js:1'],
  ['a 500 in JSON', 500, { 'content-type': 'application/json' }, '{"stack":"at internal.js:1"}'],
])('§6: hostile upstream: answering %s gets 502', async ([, status, headers, body]) => {
  const act = (response: ServerResponse) => void response.writeHead(status, headers).end(body);
  const seen = async () => [
    await mcpCall(endpoint, { key }),
    await mcpCall(endpoint, { key, ...modern('tools/list') }),
    await mcpCall(endpoint, { key, headers: { 'mcp-protocol-version': '2025-11-25' } }),
  ];

  upstream.answer = (_, response) => act(response);
  const fromTheStart = await seen();
  upstream.answer = afterHandshake(act);
  const afterwards = await seen();

  for (const answer of [...fromTheStart, ...afterwards]) {
    expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
    expect(answer.headers.get('location')).toBeNull();
    expect(answer.headers.get('www-authenticate')).toBeNull();
    expect(answer.text).not.toMatch(/internal|hello|evil/);
  }
});

test('§6: busy upstream: 503 with the upstream’s Retry-After', async () => {
  upstream.answer = (_, response) => void response.writeHead(503, { 'retry-after': '7' }).end();
  const plain = await mcpCall(endpoint, { key });
  const newer = await mcpCall(endpoint, { key, ...modern('tools/list') });

  for (const { status, headers, errorCode } of [plain, newer]) {
    expect([status, errorCode, headers.get('retry-after')]).toEqual([503, -32000, '7']);
  }
});

test.for(['Wed, 21 Oct 2026 07:28:00 GMT', '-1', '1e9', '7, 8', '', '99999999999999999999'])(
  'busy upstream: a Retry-After that is not a number of seconds is not repeated: %s',
  async (text) => {
    upstream.answer = (_, response) => void response.writeHead(503, { 'retry-after': text }).end();

    const { status, headers } = await mcpCall(endpoint, { key });

    expect([status, headers.get('retry-after')]).toEqual([503, null]);
  },
);

test('§6: unavailable upstream: 502 with a JSON-RPC error, even when it dies during the answer', async () => {
  await using down = await recordingUpstream();
  await gateway.command('server', 'create', 'acme/down', '--http-url', down.url);
  const { key: downKey } = await gateway.newKey('acme/down');
  const at = endpoint.replace('fixture', 'down');
  down.answer = (_, response) => void response.destroy();
  const died = await mcpCall(at, { key: downKey });
  await down[Symbol.asyncDispose]();
  const refused = await mcpCall(at, { key: downKey });

  for (const { status, errorCode, text } of [died, refused]) {
    expect([status, errorCode]).toEqual([502, -32000]);
    expect(text).toContain('cannot be reached');
    expect(text).not.toContain('127.0.0.1');
  }
});

test('hostile upstream: an endless JSON body for a plain caller gets 502 without filling memory', async () => {
  upstream.answer = afterHandshake((response) => pour(response, 'application/json', '[', '1,'));

  const answer = await mcpCall(endpoint, { key });

  expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
  await expect.poll(upstream.lost, patient).toBeGreaterThan(0);
});

test('hostile upstream: an endless event for a caller that accepts JSON gets 502', async () => {
  upstream.answer = afterHandshake((response) =>
    pour(response, 'text/event-stream', 'data: ', 'x'),
  );

  const answer = await mcpCall(endpoint, { key });

  expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
});

test.for([
  ['application/json', '{"jsonrpc":"2.0",'],
  ['text/event-stream', 'data: {"jsonrpc":"2.0",'],
])('interrupted answer of %s: 502 for a caller that needs it whole', async ([type, part]) => {
  upstream.answer = afterHandshake((response) => {
    response.writeHead(200, { 'content-type': type, 'content-length': 1000 }).write(part, () => {
      response.destroy();
    });
  });

  const answer = await mcpCall(endpoint, { key });

  expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
  expect(answer.text).toContain('its response ended early');
});

test('interrupted answer of application/json: 502 in both eras', async () => {
  upstream.answer = (_, response) => {
    const headers = { 'content-type': 'application/json', 'content-length': 1_000_000 };
    response
      .writeHead(200, headers)
      .write('{"jsonrpc":'.padEnd(100_000), () => void response.destroy());
  };

  const answer = await mcpCall(endpoint, { key, ...modern('prompts/list') });

  expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
});

test('interrupted event stream: it ends with an error for a caller that streams', async () => {
  const told = 'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n';
  upstream.answer = (_, response) => {
    const headers = { 'content-type': 'text/event-stream', 'content-length': 1_000_000 };
    response.writeHead(200, headers).write(told, () => void response.destroy());
  };

  const answer = await mcpCall(endpoint, { key, ...modern('prompts/list') });

  expect([answer.status, answer.errorCode]).toEqual([200, -32000]);
  expect(answer.text).toContain(told.trim());
  expect(answer.text).toContain('its response ended early');
});

test('hostile upstream: an endless tool list gets 502 where tools are hidden', async () => {
  await gateway.command('server', 'hide-tools', 'acme/fixture', '--tool', 'secret');
  upstream.answer = afterHandshake((response) => pour(response, 'application/json', '[', '1,'));

  const answer = await mcpCall(endpoint, { key });
  await gateway.command('server', 'hide-tools', 'acme/fixture', '--none');

  expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
});

test('hostile upstream: an answer with the id of another request is not used', async () => {
  upstream.answer = afterHandshake((response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"jsonrpc":"2.0","method":"tools/list","id":1}');
  });

  const answer = await mcpCall(endpoint, { key, body: rpc('tools/list', {}, 'mine') });

  expect([answer.status, answer.errorCode]).toEqual([502, -32000]);
});

/** Sends `first`, then `more` for ever, until the other side goes. */
function pour(response: ServerResponse, type: string, first: string, more: string): void {
  response.writeHead(200, { 'content-type': type }).write(first);
  const block = more.repeat(512 * 1024);
  const go = () => {
    while (!response.destroyed && response.write(block));
  };
  response.on('drain', go);
  go();
}
