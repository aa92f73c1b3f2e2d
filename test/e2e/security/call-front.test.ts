import { afterAll, describe, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { modern, toolsList } from '#support/mcp-call';
import { rawHttp } from '#support/raw-http';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { port, key, command } = gateway;
await command('server', 'create', 'acme/other', '--http-url', upstream.url);
const { key: otherKey } = await gateway.newKey('acme/other');
const { key: readingKey } = await gateway.newKey('acme/fixture', '--scope', 'mcp:tools:read');
const token = await gateway.newToken('acme/fixture', 'mcp:tools:read');

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

interface Asked {
  readonly body?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The length that is announced, where it is another than the body's. */
  readonly length?: number;
  /** Whether the body comes in chunks, and each chunk by itself. */
  readonly isChunked?: boolean;
}

/** The answer without the headers that differ each time. */
async function answered(asked: Asked, more: readonly string[]) {
  const { body = toolsList, headers = {}, isChunked = false } = asked;
  const credential = asked.key ?? key;
  const own = {
    'content-type': 'application/json',
    ...(credential !== '' && { 'x-api-key': credential }),
    ...headers,
  };
  const lines = Object.entries(own)
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name}: ${value}`);
  const { length = Buffer.byteLength(body) } = asked;
  const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`;
  const head = ['POST /mcp/acme/fixture HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Connection: close'];
  const start = `${[...head, ...lines, ...more, framing].join('\r\n')}\r\n\r\n`;
  const pieces = [body.slice(0, 9), body.slice(9)].filter((piece) => piece !== '');
  const chunks = pieces.map(
    (piece) =>
      `${Buffer.byteLength(piece).toString(16)}\r\n${Buffer.from(piece).toString('latin1')}\r\n`,
  );
  const sent = isChunked
    ? [start, ...chunks, '0\r\n\r\n']
    : [start + Buffer.from(body).toString('latin1')];
  const { text } = await rawHttp(port, sent);
  const [top = '', ...rest] = text.split('\r\n\r\n');
  const [status, ...received] = top.split('\r\n');
  const kept = received.filter((line) => !/^(?:date|x-request-id|keep-alive):/i.test(line));
  return { status, headers: kept.toSorted(), body: rest.join('\r\n\r\n') };
}

/** Sends the same request to the call front, and to the framework, which handles all that an unlisted proxy forwarded. */
async function both(asked: Asked) {
  const direct = await answered(asked, []);
  const routed = await answered(asked, ['X-Forwarded-For: 192.0.2.1']);
  return { direct, routed };
}

const call = (name: string, id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {} } });
const message = (members: string) => `{"jsonrpc":"2.0","id":1,${members}}`;
const newer = modern('tools/list', {});

describe('MCP endpoint: the call front and the framework give the same answer to', () => {
  test.each<[string, number, Asked]>([
    ['a plain request', 200, {}],
    ['a call', 200, { body: call('echo') }],
    [
      'an id of any form',
      200,
      { body: toolsList.replace(/"id":\s*\d+/, '"id":12345678901234567890') },
    ],
    ['a request that takes events', 200, { headers: { accept: 'text/event-stream' } }],
    ['a modern request', 200, { body: newer.body, headers: newer.headers }],
    [
      'a modern request whose headers differ',
      400,
      { body: newer.body, headers: { ...newer.headers, 'Mcp-Method': 'ping' } },
    ],
    ['a notification', 202, { body: '{"jsonrpc":"2.0","method":"notifications/initialized"}' }],
    ['a body in chunks', 200, { isChunked: true }],
    ['a body of several bytes a letter', 200, { body: call('é😀') }],
    ['a body of half a megabyte', 200, { body: call('x'.repeat(500_000)) }],
    ['a body that is too large', 413, { body: '{', length: 5 * 1024 * 1024 }],
    ['an empty body', 400, { body: '' }],
    ['a body that is not JSON', 400, { body: '{' }],
    ['a batch', 400, { body: `[${toolsList}]` }],
    ['a member named twice', 400, { body: message('"method":"ping","id":2') }],
    ['data behind the message', 400, { body: `${toolsList} {}` }],
    ['a request without an id', 400, { body: '{"jsonrpc":"2.0","method":"tools/list"}' }],
    ['a response to nothing', 400, { body: message('"result":{}') }],
    ['params that are a list', 200, { body: message('"method":"tools/list","params":[]') }],
    ['a method that is unknown', 200, { body: message('"method":"sampling/createMessage"') }],
    ['a method that the key does not cover', 403, { body: call('echo'), key: readingKey }],
    ['a task of nobody', 200, { body: message('"method":"tasks/get","params":{"taskId":"t"}') }],
    ['a session of nobody', 404, { headers: { 'mcp-session-id': 'unknown' } }],
    ['another media type', 415, { headers: { 'content-type': 'text/plain' } }],
    ['an answer that cannot be had', 406, { headers: { accept: 'text/html' } }],
    ['no credential', 401, { key: '' }],
    ['two credentials', 400, { headers: { authorization: 'Bearer x' } }],
    [
      'a key with a wrong checksum',
      401,
      { key: `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}` },
    ],
    ['a key of another server', 401, { key: otherKey }],
    ['a key as a bearer token', 200, { key: '', headers: { authorization: `Bearer ${key}` } }],
    ['an access token', 200, { key: '', headers: { authorization: `Bearer ${token}` } }],
    ['a token that is none', 401, { key: '', headers: { authorization: 'Bearer none' } }],
  ])('%s: %i', async (_, status, asked) => {
    const { direct, routed } = await both(asked);

    expect(direct.status).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(direct).toEqual(routed);
  });

  test('a key before and right after it is revoked', async () => {
    const { id, key: ended } = await gateway.newKey('acme/fixture');
    const before = await both({ key: ended });
    await command('key', 'revoke', id);
    const after = await both({ key: ended });

    expect([before.direct.status, after.direct.status]).toEqual([
      'HTTP/1.1 200 OK',
      'HTTP/1.1 401 Unauthorized',
    ]);
    expect([before.direct, after.direct]).toEqual([before.routed, after.routed]);
  });
});
