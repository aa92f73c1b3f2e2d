import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { mcpCall } from '#support/mcp-call';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { spellings } from '#support/spellings';

/** Every secret that an answer of the API, or the output of a command, contained. */
const issued = new Set<string>();
const secretShape = /(?:secret|pk_live|mcp|pat)_[0-9A-Za-z]{36}/g;
const document = z.record(z.string(), z.unknown());
const made = z.object({ token: z.string(), id: z.string() });

let server: ServerProcess;
let token = '';
let tokenId = '';

beforeAll(async () => {
  server = await serverProcess({ args: ['--trust-proxy', '127.0.0.1'] });
  await server.command(['organization', 'create', 'acme']);
  await makePerson('dana@example.com', 'admin');
  ({ token, id: tokenId } = await makeToken('dana@example.com'));
});
afterAll(() => server[Symbol.asyncDispose]());

async function makePerson(email: string, role: string) {
  const words = ['user', 'create', email, '--organization', 'acme', '--role', role];
  await server.command(words, 'correct horse battery\n');
}

async function makeToken(email: string) {
  const text = await server.command(['token', 'create', email, '--name', 'script', '--json']);
  for (const [secret] of text.matchAll(secretShape)) issued.add(secret);
  return made.parse(JSON.parse(text));
}

interface Asked {
  readonly body?: object;
  readonly by?: string;
  readonly headers?: Record<string, string>;
}

async function ask(method: string, path: string, { body, by = token, headers }: Asked = {}) {
  const answer = await fetch(`${server.base}/api/admin${path}`, {
    method,
    headers: {
      authorization: `Bearer ${by}`,
      ...(body && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  for (const [secret] of text.matchAll(secretShape)) issued.add(secret);
  return { status: answer.status, headers: answer.headers, json: document.parse(JSON.parse(text)) };
}

const acme = '/organizations/acme';
const endpoint = () => `${server.base}/mcp/acme/library`;
const tokenFor = async (id: unknown, secret: unknown) => {
  const form = { grant_type: 'client_credentials', client_id: id, client_secret: secret };
  const body = new URLSearchParams(z.record(z.string(), z.string()).parse(form));
  const answer = await fetch(`${server.base}/api/oauth/token`, { method: 'POST', body });
  return { status: answer.status, json: document.parse(await answer.json()) };
};

test('admin API: a server and its key are created, changed, disabled and revoked, each effective immediately', async () => {
  const upstream = { kind: 'demo' };
  const create = await ask('POST', `${acme}/servers`, { body: { name: 'library', upstream } });

  expect(create).toMatchObject({ status: 201, json: { endpoint: '/mcp/acme/library' } });
  expect(create.headers.get('location')).toBe(`${server.base}/api/admin${acme}/servers/library`);
  expect(create.headers.get('cache-control')).toBe('no-store');

  const key = await ask('POST', `${acme}/servers/library/keys`, {
    body: { name: 'laptop', expires_in_days: 30 },
  });
  const value = String(key.json['key']);
  expect((await mcpCall(endpoint(), { key: value })).status).toBe(200);
  const read = await ask('GET', `${acme}/keys/${String(key.json['id'])}`);
  expect(read.json).toMatchObject({ hint: `mcp_…${value.slice(-4)}`, status: 'active' });
  expect(JSON.stringify(read.json)).not.toContain(value);

  const hidden = await ask('PATCH', `${acme}/servers/library`, {
    body: { hidden_tools: ['query'] },
  });
  expect(hidden.json).toMatchObject({ hidden_tools: ['query'] });
  expect((await mcpCall(endpoint(), { key: value })).text).not.toContain('"name":"query"');

  await ask('POST', `${acme}/servers/library/disable`);
  expect((await mcpCall(endpoint(), { key: value })).status).toBe(401);
  await ask('POST', `${acme}/servers/library/enable`);
  expect((await mcpCall(endpoint(), { key: value })).status).toBe(200);

  const revoked = await ask('DELETE', `${acme}/keys/${String(key.json['id'])}`);
  expect(revoked).toMatchObject({ status: 200, json: { status: 'revoked' } });
  expect((await mcpCall(endpoint(), { key: value })).status).toBe(401);
});

test('admin API: a client secret is rotated with both valid, until the old one is revoked', async () => {
  const body = {
    name: 'Claude',
    scopes: ['mcp:tools:read'],
    redirect_uris: ['http://127.0.0.1/callback'],
  };
  const client = await ask('POST', `${acme}/servers/library/clients`, { body });
  const id = String(client.json['client_id']);
  const next = await ask('POST', `${acme}/clients/${id}/secrets`, { body: {} });
  const listed = await ask('GET', `${acme}/clients/${id}/secrets`);
  const secrets = z.object({ items: z.array(document) }).parse(listed.json).items;
  const old = secrets.find((secret) => secret['id'] !== next.json['id']);

  expect((await tokenFor(id, client.json['client_secret'])).status).toBe(200);
  const access = await tokenFor(id, next.json['client_secret']);
  expect(access.status).toBe(200);

  await ask('DELETE', `${acme}/clients/${id}/secrets/${String(old?.['id'])}`);
  expect((await tokenFor(id, client.json['client_secret'])).status).toBe(401);
  expect((await tokenFor(id, next.json['client_secret'])).status).toBe(200);

  const bearer = { token: String(access.json['access_token']) };
  expect((await mcpCall(endpoint(), bearer)).status).toBe(200);
  await ask('DELETE', `${acme}/clients/${id}`);
  expect((await mcpCall(endpoint(), bearer)).status).toBe(401);
});

test('48: admin API: deleting a server ends its keys, even if one of the same name is created', async () => {
  await ask('POST', `${acme}/servers`, { body: { name: 'gone', upstream: { kind: 'demo' } } });
  const key = await ask('POST', `${acme}/servers/gone/keys`, { body: { name: 'k' } });
  const at = `${server.base}/mcp/acme/gone`;
  const value = String(key.json['key']);
  const before = await mcpCall(at, { key: value });
  await ask('DELETE', `${acme}/servers/gone`);
  await ask('POST', `${acme}/servers`, { body: { name: 'gone', upstream: { kind: 'demo' } } });

  expect([before.status, (await mcpCall(at, { key: value })).status]).toEqual([200, 401]);
});

test('48: admin API: a token has its person’s current role, and ends with them or when it is revoked', async () => {
  await makePerson('eve@example.com', 'viewer');
  const eve = await makeToken('eve@example.com');
  const body = { name: 'k' };
  const seen = await ask('GET', `${acme}/keys`, { by: eve.token });
  const refused = await ask('POST', `${acme}/servers/library/keys`, { by: eve.token, body });
  await server.command(['user', 'remove', 'eve@example.com', '--yes']);
  const gone = await ask('GET', `${acme}/keys`, { by: eve.token });

  expect([seen.status, refused.status, gone.status]).toEqual([200, 403, 401]);
  expect(refused.json).toMatchObject({ error: 'forbidden' });

  const other = await makeToken('dana@example.com');
  expect((await ask('DELETE', `/tokens/${other.id}`)).status).toBe(200);
  expect((await ask('GET', '/organizations', { by: other.token })).status).toBe(401);
});

test('admin API: lists are paged, with links to the neighbouring pages', async () => {
  for (const name of ['a', 'b', 'c']) {
    await ask('POST', `${acme}/agents`, { body: { name } });
  }
  const { json, headers } = await ask('GET', `${acme}/agents?sort=name&limit=1&page=2`);

  expect(json).toMatchObject({ items: [{ name: 'b' }], total: 3, page: 2, limit: 1 });
  expect(headers.get('link')).toContain(
    `<${server.base}/api/admin${acme}/agents?sort=name&limit=1&page=3>; rel="next"`,
  );
});

test('admin API: each invalid field is reported by its name on the wire', async () => {
  const redirects = { name: 'c', scopes: ['mcp:tools:read'], redirect_uris: ['javascript:x'] };
  const wrong = await ask('POST', `${acme}/servers/library/clients`, { body: redirects });
  const camel = { name: 'c', scopes: ['mcp:tools:read'], redirectUris: [] };
  const unknown = await ask('POST', `${acme}/servers/library/clients`, { body: camel });
  const stdio = { name: 'x', upstream: { kind: 'stdio', command: 'sh' } };
  const program = await ask('POST', `${acme}/servers`, { body: stdio });
  const secretKey = { ...redirects, redirect_uris: [], jwks: { keys: [{ kty: 'EC', d: 'x' }] } };
  const keys = await ask('POST', `${acme}/servers/library/clients`, { body: secretKey });

  expect(wrong).toMatchObject({
    status: 422,
    json: {
      error: 'invalid',
      error_description: 'redirect_uris.0 must not use javascript:',
      fields: [{ field: 'redirect_uris.0', problem: 'must not use javascript:' }],
    },
  });
  expect(unknown.json['fields']).toEqual([
    { field: 'redirect_uris', problem: 'must not be spelled redirectUris' },
  ]);
  expect(program).toMatchObject({ status: 422, json: { error: 'invalid' } });
  expect(keys.json['error_description']).toContain('is a private or shared key');
});

test('admin API: a body that is not a JSON object, fields in the URL and requests from a page are refused', async () => {
  const send = async (init: RequestInit, query = '') => {
    const headers = new Headers(init.headers);
    headers.set('authorization', `Bearer ${token}`);
    const url = `${server.base}/api/admin${acme}/agents${query}`;
    return (await fetch(url, { method: 'POST', ...init, headers })).status;
  };
  const json = { 'content-type': 'application/json' };

  expect(await send({ headers: json, body: '[]' })).toBe(400);
  expect(await send({ headers: json, body: '{' })).toBe(400);
  expect(await send({ headers: json, body: '{"name":"p","name":"q"}' })).toBe(400);
  expect(await send({ headers: { 'content-type': 'text/plain' }, body: '{}' })).toBe(400);
  expect(await send({ headers: json, body: '{"name":"q"}' }, '?name=q')).toBe(400);
  for (const origin of ['https://evil.example', `${server.base}.evil.example`, `${server.base}0`]) {
    expect(await send({ headers: { ...json, origin }, body: '{}' })).toBe(403);
  }
  expect(await send({ headers: json, body: `{"name":"${'x'.repeat(300_000)}"}` })).toBe(413);
});

test('admin API: an upstream inside the network is refused', async () => {
  const upstream = { kind: 'http', url: `${server.base}/mcp/acme/library` };
  const refused = await ask('POST', `${acme}/servers`, { body: { name: 'inside', upstream } });

  expect(refused.status).toBe(422);
  expect(JSON.stringify(refused.json)).toContain('latchkey-server outbound allow');
});

test('admin API: an upstream that later leads inside the network is not reached', async () => {
  const upstream = { kind: 'http', url: 'https://mcp.example.com/mcp' };
  await ask('POST', `${acme}/servers`, { body: { name: 'moved', upstream } });
  const key = await ask('POST', `${acme}/servers/moved/keys`, { body: { name: 'k' } });
  const database = new DatabaseSync(join(server.dataDir, 'latchkey.db'));
  database
    .prepare(
      `update target set upstream_settings = json_set(upstream_settings, '$.url', ?)
        where endpoint_id = (select id from endpoint where name = 'moved')`,
    )
    .run(`${server.base}/mcp/acme/library`);
  database.close();

  const answer = await mcpCall(`${server.base}/mcp/acme/moved`, { key: String(key.json['key']) });

  expect(answer.status).toBe(502);
});

test('admin API: an address that tries wrong tokens is slowed down', async () => {
  const wrong = (n: number) =>
    fetch(`${server.base}/api/admin/organizations`, {
      headers: { authorization: `Bearer pat_${n}`, 'x-forwarded-for': '203.0.113.9' },
    });
  const statuses: number[] = [];
  for (let n = 0; n < 21; n += 1) statuses.push((await wrong(n)).status);

  expect(statuses).toEqual([...Array.from({ length: 20 }, () => 401), 429]);
  expect((await wrong(22)).headers.get('retry-after')).toMatch(/^\d+$/);
});

test('admin API: its OpenAPI document is public and reveals no version of the server', async () => {
  const answer = await fetch(`${server.base}/api/admin/openapi.json`);

  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({ openapi: '3.1.1', servers: [{ url: server.base }] });
});

test('85, 88: admin API: every change is audited with actor, address and request id, and without any secret', async () => {
  for (const secret of issued) {
    await ask('GET', `${acme}/clients/${secret}`);
    await ask('DELETE', `${acme}/keys/${secret}`);
    await ask('GET', `${acme}/keys`, { by: secret, headers: { 'x-forwarded-for': '203.0.113.7' } });
  }
  await server.command(['token', 'revoke', 'dana@example.com', tokenId]);
  const database = new DatabaseSync(join(server.dataDir, 'latchkey.db'), { readOnly: true });
  const events = database.prepare('select * from audit_event').all();
  database.close();
  const files = readdirSync(server.dataDir).filter((name) => name.startsWith('latchkey.db'));
  const written = files.map((name) => readFileSync(join(server.dataDir, name)));
  const places = [...written, Buffer.from(server.program.stderr)];

  for (const action of ['server.create', 'key.create', 'key.revoke', 'client.rotate']) {
    expect(events).toContainEqual(
      expect.objectContaining({
        actor: expect.stringMatching(/^user:user_/),
        organization: 'acme',
        action,
        target: expect.any(String),
        address: '127.0.0.1',
        request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        outcome: 'done',
      }),
    );
  }
  expect(events).toContainEqual(expect.objectContaining({ outcome: 'refused' }));
  expect(issued.size).toBeGreaterThan(8);
  for (const secret of issued) {
    const sought = spellings(secret);
    const found = places.flatMap((place) => sought.filter((text) => place.includes(text)));
    expect(found).toEqual([]);
  }
});
