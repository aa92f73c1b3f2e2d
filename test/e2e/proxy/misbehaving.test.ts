import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { bodyOf, countedServer } from '#support/counted-server';
import { proxyProcess } from '#support/proxy-process';

type Handler = (response: ServerResponse, request: IncomingMessage) => unknown;

const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };

async function answered(handler: Handler, env: Record<string, string> = {}) {
  const server = await countedServer(async (request, response) => {
    await bodyOf(request);
    return handler(response, request);
  });
  const proxy = proxyProcess({
    args: [`${server.origin}/mcp`],
    env: { LATCHKEY_API_KEY: 'mcp_0123', ...env },
  });
  const lines = async () => {
    proxy.send('{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/list"}');
    return proxy.nextLine();
  };
  return Object.assign(proxy, {
    server,
    lines,
    async [Symbol.asyncDispose]() {
      proxy.kill('SIGKILL');
      await proxy.ended;
      await server[Symbol.asyncDispose]();
    },
  });
}

test.each<[string, number, Handler]>([
  [
    'a page',
    502,
    (response) => response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>no</h1>'),
  ],
  ['200 with a page', 200, (response) => response.writeHead(200).end('<h1>welcome</h1>')],
  ['JSON that is no JSON-RPC', 200, (response) => response.writeHead(200, json).end('{"ok":true}')],
  ['an empty 200', 200, (response) => response.writeHead(200, json).end()],
  ['202 to a request', 202, (response) => response.writeHead(202).end()],
  [
    'another request’s answer',
    200,
    (response) => response.writeHead(200, json).end('{"jsonrpc":"2.0","id":5,"result":{}}'),
  ],
  [
    'half an answer',
    200,
    (response) => {
      response.writeHead(200, { ...json, 'content-length': 500 }).write('{"jsonrpc"');
      setImmediate(() => response.destroy());
    },
  ],
  [
    'a stream without the answer',
    200,
    (response) => response.writeHead(200, events).end(': nothing\n\n'),
  ],
  [
    'a stream that breaks off',
    200,
    (response) => {
      response.writeHead(200, events).write('event: message\ndata: {"jsonrpc":"2.0",');
      setImmediate(() => response.destroy());
    },
  ],
  ['429', 429, (response) => response.writeHead(429).end()],
  ['401', 401, (response) => response.writeHead(401).end()],
  ['403', 403, (response) => response.writeHead(403).end()],
  [
    'a redirect',
    302,
    (response) => response.writeHead(302, { location: 'https://elsewhere.example/' }).end(),
  ],
])('misbehaving server: %s is one readable error', async (_, status, handler) => {
  await using proxy = await answered(handler);

  const line = await proxy.lines();

  expect(line).toContain('"id":12345678901234567890');
  expect(JSON.parse(line)).toMatchObject({
    error: { code: -32603, message: expect.any(String), data: { status } },
  });
  expect(proxy.unread()).toEqual([]);
});

test('misbehaving server: a cut or refused connection is one error that says which', async () => {
  await using proxy = await answered((response) => response.destroy());
  const cut = await proxy.lines();
  await proxy.server[Symbol.asyncDispose]();
  const refused = await proxy.lines();

  expect(cut).toContain('cannot reach');
  expect(refused).toMatch(/cannot reach.*connection refused/);
});

test('misbehaving server: an error body with another id answers the request', async () => {
  await using proxy = await answered((response) =>
    response
      .writeHead(400, json)
      .end(
        '{"jsonrpc":"2.0","id":"server-error","error":{"code":-32602,"message":"bad","data":9007199254740993}}',
      ),
  );

  expect(await proxy.lines()).toBe(
    '{"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":-32602,"message":"bad","data":9007199254740993}}',
  );
});

test('server answer: a pretty-printed one becomes one line, digit by digit', async () => {
  await using proxy = await answered((response) =>
    response
      .writeHead(200, json)
      .end(
        '{\r\n  "jsonrpc": "2.0",\n  "id": 12345678901234567890,\n  "result": {\n "n": 9007199254740993 }\n}\n',
      ),
  );

  const line = await proxy.lines();

  expect(line).toContain('"n": 9007199254740993');
  expect(line).toContain('12345678901234567890');
});

test('server answer: an event of several data lines becomes one line', async () => {
  await using proxy = await answered((response) =>
    response
      .writeHead(200, events)
      .end(
        '\u{FEFF}: hi\r\ndata: {"jsonrpc":"2.0",\r\ndata: "id":12345678901234567890,\r\ndata:"result":{}}\r\n\r\n',
      ),
  );

  expect(await proxy.lines()).toBe('{"jsonrpc":"2.0", "id":12345678901234567890, "result":{}}');
});

test('misbehaving server: a duplicate answer is passed on once', async () => {
  const event = 'data: {"jsonrpc":"2.0","id":12345678901234567890,"result":{}}\n\n';
  await using proxy = await answered((response) =>
    response.writeHead(200, events).end(event + event),
  );

  await proxy.lines();
  const next = await proxy.lines();

  expect(JSON.parse(next)).toMatchObject({ result: {} });
  expect(proxy.unread()).toEqual([]);
});

test('message limit: an answer over it is an error, and so is a request', async () => {
  const env = { LATCHKEY_MAX_MESSAGE_BYTES: '2048' };
  const big = 'x'.repeat(4_000);
  await using proxy = await answered(
    (response) => response.writeHead(200, json).end(`{"jsonrpc":"2.0","id":1,"result":"${big}"}`),
    env,
  );

  expect(await proxy.lines()).toContain('larger than 2048 bytes');
  proxy.send({ method: 'tools/call', params: { big }, jsonrpc: '2.0', id: 'late' });
  expect(await proxy.next()).toMatchObject({ id: 'late', error: { code: -32600 } });
  expect(proxy.server.seen).toHaveLength(1);
});

test('interrupted stream: one with event ids is resumed where it stopped', async () => {
  let posted = 0;
  await using proxy = await answered((response, request) => {
    if (request.method === 'POST' && posted++ === 0)
      return response.writeHead(200, events).end('id: 7\nretry: 10\ndata:\n\n');
    return response
      .writeHead(200, events)
      .end('data: {"jsonrpc":"2.0","id":12345678901234567890,"result":{"resumed":true}}\n\n');
  });

  expect(await proxy.lines()).toContain('"resumed":true');
  expect(proxy.server.seen[1]?.headers['last-event-id']).toBe('7');
});

test('unreachable server: server/discover lets the assistant fall back to initialize', async () => {
  await using proxy = await answered((response) => response.destroy());

  expect((await proxy.request('server/discover')).error?.code).toBe(-32601);
});

test('stdin: a line that is not JSON gets a parse error, and the next line works', async () => {
  await using proxy = await answered((response) =>
    response.writeHead(200, json).end('{"jsonrpc":"2.0","id":1,"result":{}}'),
  );

  proxy.send('{"jsonrpc":"2.0","id":1,');
  proxy.send('');
  proxy.send('[{"jsonrpc":"2.0","id":1,"method":"ping"}]');

  expect(await proxy.next()).toMatchObject({ id: null, error: { code: -32700 } });
  expect(await proxy.next()).toMatchObject({ id: null, error: { code: -32600 } });
  expect((await proxy.request('ping')).result).toEqual({});
});

const listAnswer = '{"jsonrpc":"2.0","id":12345678901234567890,"result":{"tools":[]}}';

test.each<[string, string]>([
  ['initialize', '"params":{"protocolVersion":"2025-11-25","protocolVersion":"2025-06-18"}'],
  [
    'tools/list',
    '"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","a":1,"a":2}}',
  ],
])(
  'assistant: %s with a duplicate member is refused, and the proxy continues',
  async (method, params) => {
    await using proxy = await answered((response) => response.writeHead(200, json).end(listAnswer));
    proxy.send(`{"jsonrpc":"2.0","id":7,"method":"${method}",${params}}`);

    const refusal = await proxy.nextLine();

    expect(JSON.parse(refusal)).toMatchObject({ id: 7, error: { code: -32600 } });
    expect(refusal).toContain('an object with a duplicate member');
    expect(await proxy.lines()).toContain('"id":12345678901234567890');
  },
);

test('assistant: a cancellation with a duplicate request id is dropped, and the proxy continues', async () => {
  await using proxy = await answered((response) => response.writeHead(200, json).end(listAnswer));
  proxy.send(
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}',
  );

  expect(await proxy.lines()).toContain('"result"');
});

test('misbehaving server: an error with a member named twice is one readable error', async () => {
  await using proxy = await answered((response) =>
    response
      .writeHead(200, json)
      .end('{"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":1,"code":2,"message":"x"}}'),
  );

  expect(JSON.parse(await proxy.lines())).toMatchObject({
    error: { code: -32600, message: expect.stringContaining('an object with a duplicate member') },
  });
});
