import { connect, type Socket } from 'node:net';

import { afterAll, beforeEach, expect, onTestFinished, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import { systemClock } from '#server/model/clock';
import { createKey } from '#server/admin/create-credentials';
import { defaultKeyScopes } from '#server/model/scopes';
import { jsonLog } from '#server/log/log';
import { serve } from '#server/app/serve';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { freePort } from '#support/loopback';
import { mcpCall, toolsList } from '#support/mcp-call';
import { runProgram } from '#support/processes';
import { rawHttp } from '#support/raw-http';
import { temporaryFolder } from '#support/temporary-folder';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const page = 'https://assistant.example';
const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({
  upstreamUrl: upstream.url,
  start: ['--allowed-origin', page],
});
const { base, endpoint, key, port } = gateway;

beforeEach(() => void upstream.requests.splice(0));

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

test.for([
  'https://evil.example',
  'null',
  `${page}.evil`,
  'http://localhost:1',
  `${page}, ${page}`,
])('64: Origin: %s gets 403, with or without credentials', async (origin) => {
  for (const method of ['POST', 'OPTIONS', 'GET']) {
    const answer = await mcpCall(endpoint, { key, method, headers: { origin } });

    expect(answer.status).toBe(403);
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  }
  expect(upstream.calls()).toEqual([]);
});

test.for(['.evil.example', '0', '@evil.example', ', http://evil.example'])(
  '115: own origin: an Origin or Host that is ours followed by %j is foreign',
  async (suffix) => {
    const { status } = await mcpCall(endpoint, { key, headers: { origin: base + suffix } });
    const host = `127.0.0.1:${port}${suffix}`;
    const head = ['POST /mcp/acme/fixture HTTP/1.1', `Host: ${host}`, `X-API-Key: ${key}`];
    const rest = ['Connection: close', `Content-Length: ${toolsList.length}`, '', toolsList];
    const { statuses } = await rawHttp(port, [...head, ...rest].join('\r\n'));

    expect([status, statuses]).toEqual([403, [421]]);
    expect(upstream.calls()).toEqual([]);
  },
);

test('64: Origin: an allowed one and the server’s own may call, and only the allowed one gets CORS headers', async () => {
  const allowed = await mcpCall(endpoint, { key, headers: { origin: page } });
  const refused = await mcpCall(endpoint, { headers: { origin: page } });
  const preflight = await mcpCall(endpoint, { method: 'OPTIONS', headers: { origin: page } });
  const own = await mcpCall(endpoint, { key, headers: { origin: base } });

  expect([allowed.status, refused.status, preflight.status, own.status]).toEqual([
    200, 401, 204, 200,
  ]);
  for (const { headers } of [allowed, refused, preflight]) {
    expect(headers.get('access-control-allow-origin')).toBe(page);
    expect(headers.get('access-control-allow-credentials')).toBeNull();
    expect(headers.get('vary')).toBe('Origin');
  }
  expect(preflight.headers.get('access-control-allow-headers')).toContain('X-API-Key');
  expect(own.headers.get('access-control-allow-origin')).toBeNull();
});

test.for([
  'evil',
  'evil:80',
  'localhost',
  `localhost:HERE`,
  '127.0.0.1',
  '127.0.0.1:1',
  '',
  'HERE',
])('64: Host: %s gets 421 on every path except the probes', async (name) => {
  const host = name.replace('HERE', String(port));
  const get = (path: string) =>
    rawHttp(port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  const paths = [
    '/mcp/acme/fixture',
    '/.well-known/oauth-authorization-server',
    '/.well-known/oauth-protected-resource/mcp/acme/fixture',
    '/nowhere',
  ];
  for (const path of paths) expect((await get(path)).statuses).toEqual([421]);
  const call = ['POST /mcp/acme/fixture HTTP/1.1', `Host: ${host}`, `X-API-Key: ${key}`];
  const rest = ['Connection: close', `Content-Length: ${toolsList.length}`, '', toolsList];
  const sent = await rawHttp(port, [...call, ...rest].join('\r\n'));

  expect(sent.statuses).toEqual([421]);
  expect((await get('/healthz')).statuses).toEqual([200]);
  expect((await get('/readyz')).statuses).toEqual([200]);
  expect(upstream.calls()).toEqual([]);
});

test('64: listening address: loopback only, unless configured otherwise', async () => {
  const args = ['-c', `cat /proc/net/tcp /proc/net/tcp6 2>/dev/null`];
  const { stdout } = await runProgram('sh', { args });
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const listening = stdout.split('\n').filter((line) => line.includes(`:${hex} `));
  const local = listening.map((line) => line.trim().split(/\s+/)[1]);

  expect(local).toContain(`0100007F:${hex}`);
  expect(local).not.toContain(`00000000:${hex}`);
  expect(local).not.toContain(`00000000000000000000000000000000:${hex}`);
});

const maxBytes = 4 * 1024 * 1024;
const padded = (bytes: number) => toolsList + ' '.repeat(bytes - toolsList.length);

test('68: request body: 4 MiB is served, and one byte more gets 413', async () => {
  const fits = await mcpCall(endpoint, { key, body: padded(maxBytes) });
  const over = await mcpCall(endpoint, { key, body: padded(maxBytes + 1) });

  expect(fits.status).toBe(200);
  expect([over.status, over.errorCode]).toEqual([413, -32600]);
});

test('68: request body: in chunks it gets 413 as soon as it is too long', async () => {
  const head = ['POST /mcp/acme/fixture HTTP/1.1', `Host: 127.0.0.1:${port}`, `X-API-Key: ${key}`];
  const type = ['Content-Type: application/json', 'Transfer-Encoding: chunked', '', ''];
  const chunk = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
  const bytes = [[...head, ...type].join('\r\n'), chunk, chunk, chunk, chunk, chunk];

  // Without the last chunk: the answer does not wait for it.
  const { statuses } = await rawHttp(port, bytes, { until: (text) => text.includes('413') });

  expect(statuses).toEqual([413]);
});

test('68: request body: none is read without credentials', async () => {
  const head = `POST /mcp/acme/fixture HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: 999999999`;
  const { statuses } = await rawHttp(port, `${head}\r\n\r\n`, {
    until: (text) => text.includes('401'),
  });

  expect(statuses).toEqual([401]);
});

test('68: request header: more than 16 KB gets 431', async () => {
  const one = await rawHttp(port, `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`);
  const many = `GET / HTTP/1.1\r\nHost: a\r\n${'X: x\r\n'.repeat(4000)}\r\n`;
  const path = await rawHttp(port, `GET /${'x'.repeat(17_000)} HTTP/1.1\r\nHost: a\r\n\r\n`);

  expect([one.statuses, (await rawHttp(port, many)).statuses, path.statuses]).toEqual([
    [431],
    [431],
    [431],
  ]);
});

test.for(['/api/oauth/token', '/mcp/acme/fixture'])(
  '68: request body: one that does not arrive in time gets 408 at %s',
  async (path) => {
    const slow = await inProcess(300);
    const head = [`POST ${path} HTTP/1.1`, `Host: 127.0.0.1:${slow.port}`];
    const isMcp = path.startsWith('/mcp/');
    const type = isMcp ? 'application/json' : 'application/x-www-form-urlencoded';
    const body = [
      `X-API-Key: ${slow.key}`,
      `Content-Type: ${type}`,
      'Content-Length: 100',
      '',
      '{',
    ];

    const answer = await rawHttp(slow.port, [...head, ...body].join('\r\n'));

    expect(answer.statuses).toEqual([408]);
    expect(answer.closed).toBe(true);
    expect(answer.text).toMatch(/^x-request-id: \S/im);
  },
);

test('68: request header: one that does not arrive in time gets 408', async () => {
  const slow = await inProcess(300);

  const answer = await rawHttp(slow.port, 'POST /mcp/acme/fixture HTTP/1.1\r\nHost');

  expect(answer.statuses).toEqual([408]);
});

test('68: connections: 10,000 idle sockets do not block a legitimate request', async () => {
  const { stdout } = await runProgram('sh', { args: ['-c', 'ulimit -n'] });
  const count = Math.min(10_000, Number(stdout) - 2000);
  const sockets: Socket[] = [];
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
  for (let batch = 0; batch < count; batch += 250) {
    const some = Array.from({ length: Math.min(250, count - batch) }, () => idle(port));
    sockets.push(...(await Promise.all(some)));
  }

  const answer = await mcpCall(endpoint, { key });

  expect(sockets.filter((socket) => !socket.destroyed).length).toBeGreaterThan(count * 0.9);
  expect(answer.status).toBe(200);
});

test('70: MCP endpoint: other methods get 405 with the allowed ones', async () => {
  for (const method of ['PUT', 'PATCH', 'HEAD', 'OPTIONS', 'GET', 'DELETE']) {
    for (const credential of [{ key }, {}]) {
      const answer = await mcpCall(endpoint, { ...credential, method });

      expect([method, answer.status]).toEqual([method, 405]);
      expect(answer.headers.get('allow')).toContain('POST');
    }
  }
  expect(upstream.calls()).toEqual([]);
});

test('70: MCP endpoint: GET and DELETE with an unknown session get 404', async () => {
  for (const method of ['GET', 'DELETE', 'POST']) {
    const headers = { 'mcp-session-id': 'unknown' };

    expect((await mcpCall(endpoint, { key, method, headers })).status).toBe(404);
    expect((await mcpCall(endpoint, { method, headers })).status).toBe(401);
  }
  expect(upstream.calls()).toEqual([]);
});

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

test('MCP endpoint: opened in a browser, it says what it is for, the same whether or not the server exists', async () => {
  const open = async (path: string, headers: Record<string, string> = {}) => {
    const url = new URL(path, endpoint).href;
    const answer = await fetch(url, { headers: { accept: browser, ...headers } });
    const id = answer.headers.get('x-request-id') ?? '';
    const text = (await answer.text()).replaceAll(id, 'ID').replaceAll(path, 'PATH');
    const place = path.replace('/mcp', '');
    const fixed = [...answer.headers].filter(
      ([name]) => !/^(?:date|x-request-id|content-length)$/.test(name),
    );
    return { status: answer.status, headers: Object.fromEntries(fixed), text, url, place };
  };
  const known = await open('/mcp/acme/fixture');
  const others = [
    await open('/mcp/acme/unknown'),
    await open('/mcp/nobody/fixture'),
    await open('/mcp/acme/fixture', { 'x-api-key': key }),
  ];

  const linked = known.text.replaceAll('/dashboard/acme/servers/fixture', 'DASHBOARD');
  expect(known.status).toBe(405);
  expect(known.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    allow: 'POST, GET, DELETE',
    'cache-control': 'no-store',
  });
  expect(known.text).toContain(`latchkey setup ${new URL(endpoint).origin}PATH`);
  expect(linked).toContain('href="DASHBOARD"');
  for (const { status, headers, text, place } of others) {
    const [, organization, server] = place.split('/');
    const own = text.replaceAll(`/dashboard/${organization}/servers/${server}`, 'DASHBOARD');
    expect({ status, headers, text: own }).toEqual({
      ...known,
      text: linked,
      url: undefined,
      place: undefined,
    });
  }
  expect(upstream.calls()).toEqual([]);
});

test('MCP endpoint: a client that sends GET gets the same error as before, whatever it accepts besides', async () => {
  const accepts = [
    undefined,
    '*/*',
    'application/json',
    'text/event-stream',
    'text/html, text/event-stream',
    'text/html, application/json;q=0.1',
  ];
  for (const accept of accepts) {
    const answer = await mcpCall(endpoint, {
      method: 'GET',
      headers: accept === undefined ? {} : { accept },
    });

    expect([accept, answer.status, answer.headers.get('allow')]).toEqual([
      accept,
      405,
      'POST, GET, DELETE',
    ]);
    expect(answer.headers.get('content-type')).toBe('application/json');
  }
  const listens = await mcpCall(endpoint, {
    method: 'GET',
    headers: { accept: browser, 'mcp-session-id': 'unknown' },
  });
  const posts = await mcpCall(endpoint, { headers: { accept: browser } });
  for (const { status, headers } of [listens, posts]) {
    expect([status, headers.get('content-type')]).toEqual([401, 'application/json']);
    expect(headers.get('www-authenticate')).toContain('resource_metadata=');
  }
});

test('70: MCP endpoint: a body that is not JSON gets 415', async () => {
  const types = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'json'];
  for (const type of [...types, 'application/json-patch+json', '']) {
    const answer = await mcpCall(endpoint, { key, headers: { 'content-type': type } });

    expect([type, answer.status]).toEqual([type, 415]);
  }
  expect(upstream.calls()).toEqual([]);
  const headers = { 'content-type': 'Application/JSON; charset=utf-8' };
  expect((await mcpCall(endpoint, { key, headers })).status).toBe(200);
});

test('70: MCP endpoint: an Accept that excludes both types gets 406, and none at all gets JSON', async () => {
  for (const accept of ['text/html', 'application/json;q=0', 'image/*, text/plain']) {
    const answer = await mcpCall(endpoint, { key, headers: { accept } });

    expect([accept, answer.status]).toEqual([accept, 406]);
  }
  expect(upstream.calls()).toEqual([]);
  const both = 'application/json, text/event-stream';
  for (const accept of ['*/*', 'application/*', 'application/json', both]) {
    const { status, headers } = await mcpCall(endpoint, { key, headers: { accept } });

    expect([status, headers.get('content-type')]).toEqual([200, 'application/json']);
  }
  const head = ['POST /mcp/acme/fixture HTTP/1.1', `Host: 127.0.0.1:${port}`, `X-API-Key: ${key}`];
  const rest = ['Content-Type: application/json', 'Connection: close'];
  const length = [`Content-Length: ${toolsList.length}`, '', toolsList];
  const none = await rawHttp(port, [...head, ...rest, ...length].join('\r\n'));
  expect(none.statuses).toEqual([200]);
  expect(none.text).toMatch(/^content-type: application\/json\r$/im);
});

test('MCP sessions: a flood of made-up session ids leaves nothing behind', async () => {
  const before = await residentBytes();
  for (let round = 0; round < 20; round += 1) {
    const calls = Array.from({ length: 50 }, (_, index) => {
      const id = `${round}-${index}-${'x'.repeat(8000)}`;
      return mcpCall(endpoint, { key, headers: { 'mcp-session-id': id } });
    });
    const statuses = new Set((await Promise.all(calls)).map(({ status }) => status));
    expect([...statuses]).toEqual([404]);
  }

  expect((await residentBytes()) - before).toBeLessThan(100 * 1024 * 1024);
});

async function residentBytes(): Promise<number> {
  const { stdout } = await runProgram('cat', { args: [`/proc/${gateway.pid}/statm`] });
  return Number(stdout.split(' ')[1]) * 4096;
}

function idle(to: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: to }, () => resolve(socket));
    socket.on('error', reject);
  });
}

/** A server in this process with an own limit for how long a request may take to arrive. */
async function inProcess(requestTimeoutMs: number): Promise<{ port: number; key: string }> {
  const folder = await temporaryFolder('limits');
  const own = await freePort();
  const server = await serve({
    dataDir: folder.path,
    masterKeyFile: undefined,
    host: '127.0.0.1',
    port: own,
    base: `http://127.0.0.1:${own}`,
    trustedProxies: [],
    allowedOrigins: [],
    maxBodyBytes: maxBytes,
    firstOrganization: undefined,
    oidc: undefined,
    requestTimeoutMs,
    proxy: { version: '0.0.0', source: { file: 'nobody downloads it here', bundle: 'nor this' } },
    nodePath: process.execPath,
    clock: systemClock(),
    log: jsonLog('silent', process.stderr),
  });
  onTestFinished(async () => {
    await server.close();
    await folder[Symbol.asyncDispose]();
  });
  const { db } = server.stores;
  const clock = systemClock();
  const at = { createdAt: clock.now() };
  await insertOrganization(db, { id: 'org_1', name: 'acme', ...at });
  const kind = { kind: 'http', url: upstream.url } as const;
  const fixture = { id: 'srv_1', organizationId: 'org_1', name: 'fixture', upstream: kind, ...at };
  await insertServer(db, { ...fixture, targetId: 'target_1' });
  const owner = { type: 'server', serverId: 'srv_1' } as const;
  const made = { name: 'a key', owner, scopes: defaultKeyScopes, expiresAt: undefined };
  const { key: slowKey } = await createKey(made, { db, clock });
  return { port: own, key: slowKey };
}
