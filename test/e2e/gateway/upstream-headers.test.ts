/** Fixed headers of HTTP upstreams, over real HTTP: which requests carry them, and where no request carries them. */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { decodeJwt } from 'jose';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { findOrganization } from '#server/db/organizations';
import { openStores } from '#server/app/stores';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import { tokenUpstream } from '#support/token-upstream';
import {
  bothErasAnswer,
  legacyAnswer,
  recordingUpstream,
  type Answer,
  type Recorded,
} from '#support/upstreams/recording-upstream';
import { insertUser } from '#server/db/people';
import { patient } from '#support/patient';

const value = 'Uq71-first-value-of-a-key-of-the-upstream';
const next = 'Uq72-second-value-of-a-key-of-the-upstream';
const upstream = await recordingUpstream();
const elsewhere = await recordingUpstream();
const gateway = await gatewayUnderTest({
  upstreamUrl: upstream.url,
  start: ['--log-level', 'debug', '--outbound-host', '127.0.0.1'],
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await elsewhere[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
/** Everything that the server has answered to calls, and its commands have printed. */
const said: string[] = [];
let servers = 0;
let path: string;
let endpoint: string;
let key: string;
beforeEach(async () => {
  path = `acme/keyed-${(servers += 1)}`;
  endpoint = `${gateway.base}/mcp/${path}`;
  await made('server', 'create', path, '--http-url', upstream.url, ...header('X-Api-Key', value));
  ({ key } = await gateway.newKey(path));
  for (const one of [upstream, elsewhere]) {
    one.answer = legacyAnswer;
    one.requests.length = 0;
  }
});

function header(name: string, text: string): string[] {
  const file = join(gateway.dataDir, `value-${name}`);
  writeFileSync(file, `${text}\n`);
  return ['--http-header-file', `${name}=${file}`];
}
async function made(...words: string[]) {
  const answer = await gateway.command(...words);
  said.push(JSON.stringify(answer));
  return answer;
}
async function call(asked: Parameters<typeof mcpCall>[1] = {}) {
  const answer = await mcpCall(endpoint, { key, ...asked });
  said.push(answer.text, JSON.stringify([...answer.headers]));
  return answer;
}
/** A personal token of a new administrator. */
async function adminToken(): Promise<string> {
  const stores = await openStores(gateway.dataDir);
  const { id: organizationId = '' } = (await findOrganization(stores.db, 'acme')) ?? {};
  const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: 1 };
  await insertUser(stores.db, dana, { organizationId, role: 'admin' });
  await stores.close();
  const answer = await gateway.command('token', 'create', dana.email, '--name', 'script');
  return String(answer['token']);
}
const sent = (requests: readonly Recorded[], name = 'x-api-key') =>
  requests.map(({ headers }) => headers[name]);
/** Accepts these values of the header and refuses all others. */
const taking =
  (...values: readonly string[]): Answer =>
  (request, response) =>
    values.includes(String(request.headers['x-api-key']))
      ? legacyAnswer(request, response)
      : void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end('who are you?');

test('fixed header: a plain request and the gateway’s handshake for it carry it', async () => {
  const answer = await call();

  expect(answer.status).toBe(200);
  expect(upstream.requests.length).toBeGreaterThan(2);
  expect(sent(upstream.requests)).toEqual(upstream.requests.map(() => value));
  expect(answer.headers.get('x-api-key')).toBeNull();
});

test('fixed header: a modern request and era detection carry it', async () => {
  upstream.answer = bothErasAnswer;
  await call(modern('tools/list'));

  const methods = upstream.requests.map(
    ({ body }) => z.object({ method: z.string() }).parse(JSON.parse(body.toString())).method,
  );
  expect(methods).toEqual(expect.arrayContaining(['server/discover', 'tools/list']));
  expect(sent(upstream.requests)).toEqual(upstream.requests.map(() => value));
});

test('fixed header: POST, GET and DELETE of a session carry it, and a new value from the next request on', async () => {
  upstream.answer = (request, response) => {
    if (request.method === 'DELETE') return void response.writeHead(204).end();
    if (request.method === 'GET') {
      return void response.writeHead(200, { 'content-type': 'text/event-stream' }).end();
    }
    response.setHeader('mcp-session-id', 'session-there');
    return legacyAnswer(request, response);
  };
  const begun = await call({ body: initialize() });
  const headers = {
    'mcp-session-id': begun.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': '2025-06-18',
    accept: 'application/json, text/event-stream',
  };
  await call({ headers, body: '{"jsonrpc":"2.0","method":"notifications/initialized"}' });
  await call({ headers, method: 'GET' });
  await made('server', 'set-header', path, ...header('x-api-key', next));
  await call({ headers });
  await call({ headers, method: 'DELETE' });

  const seen = upstream.requests.map(({ method, headers: at }) => [method, at['x-api-key']]);
  expect(seen.filter(([method]) => method === 'GET').length).toBeGreaterThan(0);
  expect(seen.at(-1)).toEqual(['DELETE', next]);
  expect(seen.filter(([, one]) => one !== value && one !== next)).toEqual([]);
  expect(seen.findLast(([method]) => method === 'POST')).toEqual(['POST', next]);
});

test('fixed header: calls translated for a legacy upstream carry a new value from the next one on', async () => {
  upstream.answer = (request, response) => {
    if (request.method !== 'DELETE') response.setHeader('mcp-session-id', 'session-there');
    return legacyAnswer(request, response);
  };
  const before = await call(modern('tools/list'));
  await made('server', 'set-header', path, ...header('x-api-key', next));
  upstream.requests.length = 0;
  const after = await call(modern('tools/list'));

  const posts = upstream.requests.filter(({ method }) => method === 'POST');
  expect([before.status, after.status]).toEqual([200, 200]);
  expect(new Set(sent(posts))).toEqual(new Set([next]));
});

describe('replacing the value of a fixed header', () => {
  const listed = z.array(z.object({ refused_at: z.number().nullable() }));
  const refusedAt = async () =>
    listed.parse(Object.values(await made('server', 'list-headers', path)))[0]?.refused_at;

  test('set here first: the upstream gets the previous value until it accepts the new one', async () => {
    upstream.answer = taking(value);
    await made('server', 'set-header', path, ...header('x-api-key', next));
    const early = await call();
    const early2 = await refusedAt();
    upstream.answer = taking(next);
    upstream.requests.length = 0;
    const late = await call();

    expect([early.status, late.status]).toEqual([200, 200]);
    expect(early2).toBeGreaterThan(0);
    expect(new Set(sent(upstream.requests))).toEqual(new Set([next]));
  });

  test('accepted there first: only the new value is sent, and nothing is refused', async () => {
    upstream.answer = taking(value, next);
    await made('server', 'set-header', path, ...header('x-api-key', next));
    const answer = await call();

    expect(answer.status).toBe(200);
    expect(new Set(sent(upstream.requests))).toEqual(new Set([next]));
    expect(await refusedAt()).toBeNull();
  });

  test('a wrong value that is not refused by 401 can be undone', async () => {
    upstream.answer = (request, response) =>
      request.headers['x-api-key'] === value
        ? legacyAnswer(request, response)
        : void response.writeHead(403).end();
    await made('server', 'set-header', path, ...header('x-api-key', next));
    const wrong = await call();
    await made('server', 'restore-header', path, 'x-api-key');
    const restored = await call();

    expect([wrong.status, restored.status]).toEqual([502, 200]);
  });
});

test('fixed header: a value that the upstream refuses is a gateway error, not a 401, and is not retried', async () => {
  upstream.answer = taking();
  const answer = await call();

  expect(answer.status).toBe(502);
  expect(answer.text).toContain('it refused the request (HTTP 401)');
  expect(answer.headers.get('www-authenticate')).toBeNull();
});

test('fixed header: never sent to another origin, by redirect or after the server was moved and came back', async () => {
  upstream.answer = (_request, response) =>
    void response.writeHead(307, { location: elsewhere.url }).end();
  const redirected = await call();
  const followed = elsewhere.requests.length;
  const moved = await made('server', 'update', path, '--http-url', elsewhere.url);
  const there = await call();
  upstream.answer = legacyAnswer;
  upstream.requests.length = 0;
  await made('server', 'update', path, '--http-url', upstream.url);
  await call();

  expect([redirected.status, followed]).toEqual([502, 0]);
  expect(moved).toMatchObject({ removed_headers: ['x-api-key'] });
  expect(there.status).toBe(200);
  expect(new Set(sent(elsewhere.requests))).toEqual(new Set([undefined]));
  expect(new Set(sent(upstream.requests))).toEqual(new Set([undefined]));
});

test('fixed header: another path of the same origin gets it', async () => {
  await made('server', 'update', path, '--http-url', `${upstream.url}/other`);
  await call();

  expect(new Set(sent(upstream.requests))).toEqual(new Set([value]));
});

test('fixed header: a removed one is not sent any more', async () => {
  await made('server', 'remove-header', path, 'X-API-KEY');
  await call();

  expect(new Set(sent(upstream.requests))).toEqual(new Set([undefined]));
});

test('fixed header: sent beside an upstream token, and during discovery of the authorization server', async () => {
  await using guarded = await tokenUpstream();
  const file = join(gateway.dataDir, 'client-secret');
  writeFileSync(file, guarded.clientSecret);
  const url = ['--http-url', guarded.url];
  await made('server', 'update', path, ...url, ...header('X-Api-Key', value));
  const client = ['--client-id', guarded.clientId, '--client-secret-file', file];
  const inside = ['--issuer', guarded.issuer, '--outbound-host', '127.0.0.1'];
  const access = ['--client-credentials', ...client, ...inside, '--forward-caller', 'yes'];
  await made('server', 'set-access', path, ...access);
  const asked = guarded.seen.length;
  const answer = await call({ body: rpc('tools/call', { name: 'whoami', arguments: {} }) });

  expect(answer.text).toContain('you are latchkey-there');
  expect(asked).toBeGreaterThan(0);
  expect(new Set(guarded.seen.map(({ headers }) => headers['x-api-key']))).toEqual(
    new Set([value]),
  );
  const last = guarded.seen.at(-1);
  expect(decodeJwt(last?.authorization?.replace('Bearer ', '') ?? '')).toMatchObject({
    iss: guarded.issuer,
  });
  expect(decodeJwt(last?.caller ?? '')).toMatchObject({ iss: gateway.base, aud: guarded.url });
  await expect(
    made('server', 'set-header', path, ...header('Authorization', 'Basic eDp5')),
  ).rejects.toThrow('set it to none first');
});

test('fixed header: beside a fixed Authorization the caller assertion has its own header', async () => {
  await made('server', 'set-header', path, ...header('Authorization', `Bearer ${value}`));
  await made('server', 'set-access', path, '--forward-caller', 'yes');
  await call();

  expect(new Set(sent(upstream.requests, 'authorization'))).toEqual(new Set([`Bearer ${value}`]));
  const [caller = ''] = upstream.requests.flatMap(
    ({ headers }) => headers['latchkey-caller'] ?? [],
  );
  expect(decodeJwt(caller)).toMatchObject({ aud: upstream.url });
});

test('fixed header: the admin API sets, lists and removes it, and never returns a value', async () => {
  const token = await adminToken();
  const [, name = ''] = path.split('/');
  const ask = async (method: string, at = '', body?: object) => {
    const answer = await fetch(
      `${gateway.base}/api/admin/organizations/acme/servers/${name}/upstream-headers${at}`,
      {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      },
    );
    const text = await answer.text();
    said.push(text);
    return { status: answer.status, json: JSON.parse(text) };
  };
  const replaced = await ask('POST', '', { name: 'X-Api-Key', value: next });
  const stale = await ask('POST', '', { name: 'x-other', value: next, revision: 0 });
  const wrong = await ask('POST', '', { name: 'x-other', value: `${next}\r\nx: y` });
  const reserved = await ask('POST', '', { name: 'Mcp-Session-Id', value: next });
  const listed = await ask('GET');
  await call();
  const forgotten = await ask('DELETE', '/x-api-key/previous');
  const none = await ask('POST', '/x-api-key/restore', {});
  const removed = await ask('DELETE', '/x-api-key');
  const gone = await ask('DELETE', '/x-api-key');

  const times = { set_at: expect.any(Number) };
  const previous = { hint: '…ream', ...times, until: expect.any(Number) };
  expect(replaced).toMatchObject({ status: 200, json: { revision: 1, refused_at: null } });
  expect(replaced.json.items).toEqual([{ name: 'x-api-key', hint: '…ream', ...times, previous }]);
  expect(listed.json).toEqual(replaced.json);
  expect([stale.status, wrong.status, reserved.status]).toEqual([409, 422, 422]);
  expect(wrong.json.fields).toEqual([
    { field: 'value', problem: 'may contain only printable ASCII characters, without line breaks' },
  ]);
  expect(new Set(sent(upstream.requests))).toEqual(new Set([next]));
  expect(forgotten.json.items).toMatchObject([{ previous: null }]);
  expect([none.status, removed.status, gone.status]).toEqual([409, 200, 404]);
});

test('fixed header: after all of that no value is in an answer, the log, the database or its backup', async () => {
  await call();
  await expect.poll(gateway.log, patient).toContain('"msg":"call refused"');
  await made('server', 'set-header', path, ...header('x-api-key', next));
  await made('backup', join(gateway.dataDir, 'copy.db'));
  const files = readdirSync(gateway.dataDir)
    .filter((name) => name.includes('.db'))
    .map((name) => readFileSync(join(gateway.dataDir, name)).toString('latin1'));
  const places = [gateway.log(), said.join('\n'), ...files];

  expect(files.length).toBeGreaterThan(1);
  for (const text of places) {
    expect(text.length).toBeGreaterThan(100);
    for (const secret of [value, next]) expect(text.includes(secret)).toBe(false);
  }
});
