import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';

import { afterAll, beforeEach, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, toolsList } from '#support/mcp-call';
import { rawHttp } from '#support/raw-http';
import { recordingUpstream } from '#support/upstreams/recording-upstream';
import { patient } from '#support/patient';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
await gateway.command('server', 'create', 'acme/other', '--http-url', upstream.url);
const { base, endpoint, key } = gateway;

beforeEach(() => void upstream.requests.splice(0));

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const ordinary = 'mcp:tools:read mcp:tools:execute mcp:resources:read';
const metadata = `resource_metadata="${base}/.well-known/oauth-protected-resource/mcp/acme/fixture"`;
const scope = `scope="${ordinary}"`;

test('53: MCP endpoint: without credentials it answers 401 with the metadata URL and no error code', async () => {
  const answer = await mcpCall(endpoint);

  expect(answer.status).toBe(401);
  expect(answer.headers.get('www-authenticate')).toBe(`Bearer ${metadata}, ${scope}`);
  expect(upstream.calls()).toEqual([]);
});

test('53: credentials: those in the query or the body are ignored', async () => {
  const names = ['access_token', 'api_key', 'x-api-key', 'key', 'authorization'];
  for (const name of names) {
    const inQuery = await mcpCall(`${endpoint}?${name}=${key}`);
    const inJson = await mcpCall(endpoint, {
      body: toolsList.replace('{', `{"${name}":"${key}",`),
    });
    const inForm = await mcpCall(endpoint, {
      body: `${name}=${key}`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });

    for (const answer of [inQuery, inJson, inForm]) {
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).not.toContain('error=');
    }
  }
  expect(upstream.calls()).toEqual([]);
});

test('53: credentials: one repeated in the query does not appear in the log', async () => {
  await mcpCall(`${endpoint}?access_token=${key}`);

  await expect.poll(gateway.log, patient).toContain('"status":401');
  expect(gateway.log()).not.toContain(key);
});

test('56: scopes: tools/call with only mcp:tools:read gets 403, and the upstream sees nothing', async () => {
  const token = await gateway.newToken('acme/fixture', 'mcp:tools:read');
  const { key: readingKey } = await gateway.newKey('acme/fixture', '--scope', 'mcp:tools:read');
  const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}';

  for (const credential of [{ token }, { key: readingKey }]) {
    const answer = await mcpCall(endpoint, { ...credential, body: call });

    expect(answer.status).toBe(403);
    const challenge = answer.headers.get('www-authenticate');
    expect(challenge).toContain('error="insufficient_scope"');
    expect(challenge).toContain('scope="mcp:tools:read mcp:tools:execute"');
    expect(challenge).toContain(metadata);
  }
  expect(upstream.calls()).toEqual([]);
  expect((await mcpCall(endpoint, { token })).status).toBe(200);
});

test('56: scopes: each method is refused without its scope, and methods without a scope are not', async () => {
  const without = async (granted: string) =>
    (await gateway.newKey('acme/fixture', '--scope', granted)).key;
  const server = await without('mcp:server:read');
  const refused: Record<string, string> = {
    'tools/list': 'mcp:tools:read mcp:server:read',
    'tools/call': 'mcp:tools:execute mcp:server:read',
    'tasks/get': 'mcp:tools:execute mcp:server:read',
    'resources/list': 'mcp:resources:read mcp:server:read',
    'resources/read': 'mcp:resources:read mcp:server:read',
    'prompts/get': 'mcp:resources:read mcp:server:read',
    'completion/complete': 'mcp:resources:read mcp:server:read',
    'skills/list': 'mcp:resources:read mcp:server:read',
  };
  for (const [method, union] of Object.entries(refused)) {
    const body = `{"jsonrpc":"2.0","id":1,"method":"${method}"}`;
    const answer = await mcpCall(endpoint, { key: server, body });

    const challenge = answer.headers.get('www-authenticate');
    expect([method, answer.status]).toEqual([method, 403]);
    expect(challenge).toContain(`scope="${union}"`);
  }
  const listen =
    '"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}';
  const listening = await mcpCall(endpoint, {
    key: server,
    body: `{"jsonrpc":"2.0","id":1,${listen}}`,
  });
  expect(listening.status).toBe(403);
  expect(upstream.calls()).toEqual([]);

  for (const method of ['initialize', 'ping', 'server/discover', 'logging/setLevel']) {
    const body = `{"jsonrpc":"2.0","id":1,"method":"${method}"}`;
    const { status } = await mcpCall(endpoint, { key: server, body });
    expect([method, status]).toEqual([method, 200]);
  }
});

test('56: scopes: a header cannot disguise a forbidden call as an allowed one', async () => {
  const { key: readingKey } = await gateway.newKey('acme/fixture', '--scope', 'mcp:tools:read');
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}';
  for (const version of [undefined, '2025-11-25', '2026-07-28']) {
    const headers = {
      'mcp-method': 'tools/list',
      ...(version !== undefined && { 'mcp-protocol-version': version }),
    };
    const answer = await mcpCall(endpoint, { key: readingKey, body, headers });

    expect([400, 403]).toContain(answer.status);
  }
  expect(upstream.calls()).toEqual([]);
});

test('57: scopes: a method outside the scope table gets -32601 and is never forwarded', async () => {
  const unknown = [
    'foo',
    'tools/delete',
    'tools',
    'Tools/List',
    '__proto__',
    'constructor',
    ' ping',
  ];
  for (const method of unknown) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method });
    const legacy = await mcpCall(endpoint, { key, body });
    const meta = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}';
    const modern = await mcpCall(endpoint, {
      key,
      body: body.replace(/}$/, `,"params":{${meta}}}`),
      headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method },
    });

    expect([method, legacy.status, legacy.errorCode]).toEqual([method, 200, -32601]);
    // A header loses the blank at its end, so that this one differs from its body.
    const expected = method === ' ping' ? [400, -32020] : [404, -32601];
    expect([method, modern.status, modern.errorCode]).toEqual([method, ...expected]);
  }
  expect(upstream.calls()).toEqual([]);
});

test('57: hidden tool: neither listed nor callable', async () => {
  await gateway.command('server', 'hide-tools', 'acme/fixture', '--tool', 'secret');
  const call = (name: string) =>
    mcpCall(endpoint, {
      key,
      body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":${name}}}`,
    });

  const listed = await mcpCall(endpoint, { key });
  upstream.requests.splice(0);
  const called = await call('"secret"');
  const escaped = await call(String.raw`"\u0073ecret"`);

  expect(listed.text).toContain('"echo"');
  expect(listed.text).not.toContain('secret');
  expect([called.errorCode, escaped.errorCode]).toEqual([-32602, -32602]);
  expect(upstream.calls()).toEqual([]);
  expect((await call('"echo"')).status).toBe(200);

  await gateway.command('server', 'hide-tools', 'acme/fixture', '--none');
  expect((await mcpCall(endpoint, { key })).text).toContain('secret');
});

test('58: API key: of two active ones both work, and a revoked one is refused from the next request on', async () => {
  const one = await gateway.newKey('acme/fixture');
  const two = await gateway.newKey('acme/fixture');
  expect((await mcpCall(endpoint, { key: one.key })).status).toBe(200);
  expect((await mcpCall(endpoint, { key: two.key })).status).toBe(200);

  await gateway.command('key', 'revoke', one.id);

  const refused = await mcpCall(endpoint, { key: one.key });
  expect(refused.status).toBe(401);
  expect(refused.headers.get('www-authenticate')).toContain('error="invalid_token"');
  expect((await mcpCall(endpoint, { key: two.key })).status).toBe(200);
});

test('58: API key: an expired one is refused', async () => {
  const { id, key: shortKey } = await gateway.newKey('acme/fixture', '--expires-in-days', '1');
  expect((await mcpCall(endpoint, { key: shortKey })).status).toBe(200);

  database((db) =>
    db.prepare('update api_key set expires_at = ? where id = ?').run(nowSeconds(), id),
  );

  expect((await mcpCall(endpoint, { key: shortKey })).status).toBe(401);
});

test('58: last use: recorded for a key and a client', async () => {
  const { id, key: usedKey } = await gateway.newKey('acme/fixture');
  const before = nowSeconds();
  await mcpCall(endpoint, { key: usedKey });

  const lastUsed = async () => {
    const rows = Object.values(await gateway.command('key', 'list', 'acme/fixture'));
    return JSON.stringify(rows.find((row) => JSON.stringify(row).includes(id)));
  };
  await expect.poll(lastUsed, patient).toMatch(/"last_used_at":\d/);
  expect(Number(/"last_used_at":(\d+)/.exec(await lastUsed())?.[1])).toBeGreaterThanOrEqual(before);
});

test('59: API key: one of a wrong kind, server or disabled organization is refused like an unknown one', async () => {
  const agent = await gateway.command('agent', 'create', 'acme/agent');
  const other = await gateway.newKey('acme/other');
  await gateway.command('organization', 'create', 'gone');
  await gateway.command('server', 'create', 'gone/fixture', '--http-url', upstream.url);
  const gone = await gateway.newKey('gone/fixture');
  const goneEndpoint = `${base}/mcp/gone/fixture`;
  expect((await mcpCall(goneEndpoint, { key: gone.key })).status).toBe(200);
  expect((await mcpCall(`${base}/mcp/acme/other`, { key: other.key })).status).toBe(200);
  database((db) => db.prepare(`update organization set disabled_at = 1 where name = 'gone'`).run());

  const unknown = await mcpCall(endpoint, { key: 'mcp_nonsense' });
  const answers = [
    await mcpCall(endpoint, { key: String(agent['key']) }),
    await mcpCall(endpoint, { token: String(agent['key']) }),
    await mcpCall(endpoint, { key: other.key }),
    await mcpCall(endpoint, { token: other.key }),
    await mcpCall(goneEndpoint, { key: gone.key }),
    await mcpCall(`${base}/mcp/acme/missing`, { key }),
  ];

  expect(unknown.status).toBe(401);
  for (const answer of answers) {
    expect(answer.status).toBe(401);
    expect(answer.text).toBe(unknown.text);
  }
});

test('59: disabled server: it admits none of its keys and tokens', async () => {
  await gateway.command('server', 'create', 'acme/off', '--http-url', upstream.url);
  const { key: offKey } = await gateway.newKey('acme/off');
  const token = await gateway.newToken('acme/off', 'mcp:tools:read');
  const at = `${base}/mcp/acme/off`;
  expect((await mcpCall(at, { key: offKey })).status).toBe(200);
  expect((await mcpCall(at, { token })).status).toBe(200);

  database((db) => db.prepare(`update endpoint set disabled_at = 1 where name = 'off'`).run());

  expect((await mcpCall(at, { key: offKey })).status).toBe(401);
  expect((await mcpCall(at, { token })).status).toBe(401);
});

test('60: API key: a wrong checksum is refused without a database query', async () => {
  const last = key.endsWith('0') ? '1' : '0';
  const misspelt = key.slice(0, -1) + last;
  // Without this table every look-up fails, and fails closed.
  database((db) => db.exec('alter table api_key rename to api_key_away'));
  try {
    expect((await mcpCall(endpoint, { key })).status).toBe(503);
    expect((await mcpCall(endpoint, { key: misspelt })).status).toBe(401);
    expect((await mcpCall(endpoint, { token: misspelt })).status).toBe(401);
    expect((await mcpCall(endpoint, { key: 'mcp_' })).status).toBe(401);
  } finally {
    database((db) => db.exec('alter table api_key_away rename to api_key'));
  }
  expect((await mcpCall(endpoint, { key })).status).toBe(200);
  expect(key).toMatch(/^mcp_[0-9A-Za-z]{36}$/);
});

test('61: credentials: two at once are refused', async () => {
  const token = await gateway.newToken('acme/fixture', 'mcp:tools:read');
  const pairs = [
    [`X-API-Key: ${key}`, `Authorization: Bearer ${token}`],
    [`X-API-Key: ${key}`, `Authorization: Bearer ${key}`],
    [`Authorization: Basic YTpi`, `X-API-Key: ${key}`],
    [`Authorization:`, `X-API-Key: ${key}`],
    [`X-API-Key: ${key}`, `X-API-Key: ${key}`],
    [`X-API-Key: mcp_wrong`, `x-api-key: ${key}`],
    [`Authorization: Bearer ${token}`, `AUTHORIZATION: Bearer ${token}`],
    [`Authorization: Bearer wrong`, `Authorization: Bearer ${token}`],
  ];
  for (const pair of pairs) {
    const { statuses } = await post(pair);

    expect([pair, statuses]).toEqual([pair, [400]]);
  }
  expect(upstream.calls()).toEqual([]);
  expect((await post([`X-API-Key: ${key}`])).statuses).toEqual([200]);
});

test('61: credentials: two in one header value are refused', async () => {
  for (const value of [`${key}, ${key}`, `${key} ${key}`, `${key},mcp_x`]) {
    expect((await post([`X-API-Key: ${value}`])).statuses).toEqual([401]);
    expect((await post([`Authorization: Bearer ${value}`])).statuses).toEqual([401]);
  }
  expect(upstream.calls()).toEqual([]);
});

test('62: forwarding: the upstream gets nothing of the caller except the message', async () => {
  const token = await gateway.newToken('acme/fixture', 'mcp:tools:read');
  const headers = {
    cookie: 'session=1',
    'x-forwarded-user': 'root',
    'x-forwarded-for': '10.0.0.1',
    forwarded: 'for=10.0.0.1',
    'x-real-ip': '10.0.0.1',
    'proxy-authorization': 'Basic YTpi',
    'mcp-init-host': 'evil',
    'router-key': 'evil',
    'x-anything': 'else',
    'user-agent': 'caller/1',
    'last-event-id': '7',
  };
  await mcpCall(endpoint, { key, headers });
  await mcpCall(endpoint, { token, headers });
  const version = { 'mcp-protocol-version': '2025-06-18' };
  await mcpCall(endpoint, { key, headers: { ...headers, ...version } });

  const names = new Set(upstream.requests.flatMap((request) => Object.keys(request.headers)));
  expect([...names].sort()).toEqual([
    'accept',
    'accept-encoding',
    'connection',
    'content-length',
    'content-type',
    'host',
    'mcp-method',
    'mcp-protocol-version',
    'user-agent',
  ]);
  const sent = JSON.stringify(upstream.requests);
  for (const secret of [key, token, 'caller/1', 'evil']) expect(sent).not.toContain(secret);
});

test('62: forwarding: the caller gets nothing of the upstream except status, media type and message', async () => {
  const usual = upstream.answer;
  upstream.answer = (request, response) => {
    response.setHeader('Set-Cookie', 'a=b');
    response.setHeader('WWW-Authenticate', 'Basic realm="upstream"');
    response.setHeader('Proxy-Authenticate', 'Basic');
    response.setHeader('Access-Control-Allow-Origin', '*');
    response.setHeader('Server', 'upstream/1');
    response.setHeader('Trailer', 'X-Late');
    response.setHeader('X-Anything', 'else');
    response.setHeader('X-Request-Id', 'theirs');
    response.setHeader('Location', 'http://evil/');
    response.setHeader('Mcp-Session-Id', 'theirs');
    usual(request, response);
  };
  try {
    const { headers, status } = await mcpCall(endpoint, { key });

    expect(status).toBe(200);
    expect([...headers.keys()].sort()).toEqual([
      'cache-control',
      'connection',
      'content-length',
      'content-type',
      'date',
      'keep-alive',
      'x-request-id',
    ]);
    expect(headers.get('x-request-id')).not.toBe('theirs');
  } finally {
    upstream.answer = usual;
  }
});

test('63: MCP endpoint: without credentials known and unknown servers answer alike', async () => {
  const answerOf = async (path: string, line = '') => {
    const { text } = await post(line ? [line] : [], path);
    return text
      .replace(/^(Date|X-Request-Id):.*\r\n/gim, '')
      .replaceAll(path, '/mcp/ORGANIZATION/SERVER');
  };
  const other = await gateway.newKey('acme/other');
  const paths = ['/mcp/acme/missing', '/mcp/nobody/fixture', '/mcp/nobody/nothing'];
  for (const credential of ['', 'X-API-Key: mcp_wrong', `X-API-Key: ${other.key}`]) {
    const known = await answerOf('/mcp/acme/fixture', credential);

    expect(known).toContain('401');
    for (const path of paths) expect(await answerOf(path, credential)).toBe(known);
  }
});

/** One `tools/list` over a raw socket, with these header lines. */
function post(lines: readonly string[], path = '/mcp/acme/fixture') {
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: 127.0.0.1:${gateway.port}`,
    'Content-Type: application/json',
    'Connection: close',
    `Content-Length: ${toolsList.length}`,
    ...lines,
  ];
  return rawHttp(gateway.port, `${head.join('\r\n')}\r\n\r\n${toolsList}`);
}

/** Changes the database of the running server in ways that no command can. */
function database(act: (db: DatabaseSync) => void): void {
  const db = new DatabaseSync(join(gateway.dataDir, 'latchkey.db'), { timeout: 5000 });
  try {
    act(db);
  } finally {
    db.close();
  }
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}
