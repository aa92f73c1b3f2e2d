import { afterAll, expect, test } from 'vitest';

import { fixtureUpstream } from '#support/fixture-upstream';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall } from '#support/mcp-call';
import { newestEvents } from '#support/newest-events';

const upstream = await fixtureUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const reader = (await gateway.newKey('acme/fixture')).key;
const both = ['--scope', 'mcp:server:read', '--scope', 'mcp:server:manage'];
const manager = (await gateway.newKey('acme/fixture', ...both, '--scope', 'mcp:tools:read')).key;
const token = await gateway.newToken('acme/fixture', 'mcp:server:read');

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const url = `${gateway.base}/api/servers/acme/fixture`;

async function ask(
  headers: Record<string, string>,
  change?: unknown,
  type = 'application/json',
): Promise<{ status: number; etag: string; body: unknown; challenge: string }> {
  const answer = await fetch(url, {
    method: change === undefined ? 'GET' : 'PATCH',
    headers: { ...headers, ...(change !== undefined && { 'content-type': type }) },
    ...(change !== undefined && {
      body: typeof change === 'string' ? change : JSON.stringify(change),
    }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    etag: answer.headers.get('etag') ?? '',
    challenge: answer.headers.get('www-authenticate') ?? '',
    body: text === '' ? undefined : JSON.parse(text),
  };
}
const asReader = { 'x-api-key': reader };
const asManager = { 'x-api-key': manager };

test('§2: server settings: readable with a key or token, with a version for conditional requests', async () => {
  const byKey = await ask(asReader);
  const byToken = await ask({ authorization: `Bearer ${token}` });
  const again = await ask({ ...asReader, 'if-none-match': byKey.etag });

  expect(byKey.status).toBe(200);
  expect(byKey.body).toEqual({
    organization: 'acme',
    name: 'fixture',
    title: '',
    description: '',
    instructions: '',
    hidden_tools: [],
    limits: {
      calls_per_minute: null,
      concurrent_calls: null,
      request_bytes: null,
      answer_bytes: null,
      call_seconds: null,
    },
  });
  expect(byKey.etag).toMatch(/^"[\w-]{22}"$/);
  expect(byToken.body).toEqual(byKey.body);
  expect([again.status, again.body]).toEqual([304, undefined]);
});

test('§2: server settings: a change takes effect on the next call, is audited, and keeps other settings', async () => {
  const { etag } = await ask(asReader);
  const change = { title: 'Fixture', hidden_tools: ['endless'] };
  const changed = await ask({ ...asManager, 'if-match': etag }, change);
  const listed = await mcpCall(gateway.endpoint, { key: manager });
  const merge = 'application/merge-patch+json';
  const emptied = await ask(asManager, { hidden_tools: null }, merge);

  expect(changed.status).toBe(200);
  expect(changed.body).toMatchObject({ ...change, description: '' });
  expect(changed.etag).not.toBe(etag);
  expect((await ask(asReader)).body).toMatchObject({ title: 'Fixture' });
  expect(listed.text).toContain('"name":"echo"');
  expect(listed.text).not.toContain('endless');
  expect(emptied.body).toMatchObject({ title: 'Fixture', hidden_tools: [] });
});

test('server settings: a credential shows no tool that an administrator hid, and that is recorded', async () => {
  await gateway.command('server', 'hide-tools', 'acme/fixture', '--tool', 'endless');
  const shown = await ask(asManager, { hidden_tools: [] });
  const more = await ask(asManager, { hidden_tools: ['endless', 'echo'] });
  const fewer = await ask(asManager, { hidden_tools: ['endless'] });
  const stores = await gateway.openStores();
  const events = await newestEvents(stores.db, 10);
  await stores.close();
  await gateway.command('server', 'hide-tools', 'acme/fixture', '--none');

  expect([shown.status, more.status, fewer.status]).toEqual([403, 200, 200]);
  expect(shown.body).toMatchObject({
    error: 'forbidden',
    fields: [{ field: 'hidden_tools', problem: expect.stringContaining('contain endless, which') }],
  });
  expect(events.filter(({ action }) => action === 'settings.hidden-tools')).toMatchObject([
    { target: 'acme/fixture', outcome: 'refused' },
  ]);
});

test('server settings: of two changes to one version the second is refused', async () => {
  const { etag } = await ask(asReader);
  const headers = { ...asManager, 'if-match': etag };
  const answers = await Promise.all([
    ask(headers, { description: 'one' }),
    ask(headers, { description: 'two' }),
  ]);

  expect(answers.map(({ status }) => status)).toEqual(expect.arrayContaining([200, 412]));
  expect((await ask({ ...asManager, 'if-match': '*' }, {})).status).toBe(200);
});

test.for([
  [{ hidden_tools: 'endless' }, 'hidden_tools'],
  [{ title: 'a\nb' }, 'title'],
  [{ title: 'x'.repeat(201) }, 'title'],
  [{ upstream: { kind: 'demo' } }, 'upstream'],
  [{ hidden_tools: ['a', ''] }, 'hidden_tools.1'],
  [{ hiddenTools: [] }, 'hidden_tools'],
  [{ limits: { calls_per_minute: 0 } }, 'limits.calls_per_minute'],
  [{ limits: { calls_per_minute: 1.5 } }, 'limits.calls_per_minute'],
  [{ limits: { call_seconds: '5' } }, 'limits.call_seconds'],
  [{ limits: { answer_bytes: 2 ** 40 } }, 'limits.answer_bytes'],
  [{ limits: { calls_per_day: 5 } }, 'limits.calls_per_day'],
  [{ limits: 5 }, 'limits'],
] as const)(
  'server settings: an invalid value is reported by its field: %j',
  async ([change, field]) => {
    const before = await ask(asReader);
    const refused = await ask(asManager, change);

    expect(refused.status).toBe(422);
    expect(refused.body).toMatchObject({ error: 'invalid', fields: [{ field }] });
    expect((await ask(asReader)).etag).toBe(before.etag);
  },
);

test('server settings: limits change one by one, and all are lifted at once', async () => {
  await ask(asManager, { limits: { calls_per_minute: 600, call_seconds: 30 } });
  const second = await ask(asManager, { limits: { call_seconds: null, answer_bytes: 4096 } });
  const lifted = await ask(asManager, { limits: null });

  expect(second.body).toMatchObject({
    limits: { calls_per_minute: 600, call_seconds: null, answer_bytes: 4096 },
  });
  expect(lifted.body).toMatchObject({ limits: { calls_per_minute: null, answer_bytes: null } });
  expect(lifted.etag).not.toBe(second.etag);
});

test('server settings: of many concurrent unconditional changes none is lost', async () => {
  const names = ['calls_per_minute', 'concurrent_calls', 'request_bytes', 'answer_bytes'];
  const answers = await Promise.all(
    names.map((name) => ask(asManager, { limits: { [name]: 1024 } })),
  );
  const { body } = await ask(asReader);
  await ask(asManager, { limits: null });

  expect(answers.map(({ status }) => status)).toEqual(names.map(() => 200));
  expect(body).toMatchObject({ limits: Object.fromEntries(names.map((name) => [name, 1024])) });
});

test.for(['{', '[]', '"x"', ''])(
  'server settings: a body that is not an object changes nothing: %j',
  async (text) => {
    expect((await ask(asManager, text)).status).toBe(400);
  },
);

test('56, 59: server settings: neither readable nor writable without the scope, or for another server', async () => {
  await gateway.command('server', 'create', 'acme/other', '--http-url', upstream.url);
  const other = (await gateway.newKey('acme/other', ...both)).key;
  const toolsOnly = (await gateway.newKey('acme/fixture', '--scope', 'mcp:tools:read')).key;
  const none = await ask({});
  const foreign = await ask({ 'x-api-key': other });
  const unread = await ask({ 'x-api-key': toolsOnly });
  const unmanaged = await ask(asReader, { title: 'mine' });
  const two = await ask({ ...asReader, authorization: `Bearer ${token}` });
  const page = await ask({ ...asManager, origin: 'https://evil.example' }, { title: 'mine' });

  expect([none.status, foreign.status, unread.status, unmanaged.status]).toEqual([
    401, 401, 403, 403,
  ]);
  expect([two.status, page.status]).toEqual([400, 403]);
  expect(none.challenge).not.toContain('error=');
  expect(foreign.challenge).toContain('error="invalid_token"');
  expect(foreign.body).toMatchObject({ error: 'invalid_token' });
  expect(unmanaged.challenge).toContain('mcp:server:manage');
  expect(unread.challenge).toContain('scope="mcp:tools:read mcp:server:read"');
});

test('58: server settings: a revoked key reads nothing from the next request on', async () => {
  const { id, key } = await gateway.newKey('acme/fixture');
  expect((await ask({ 'x-api-key': key })).status).toBe(200);

  await gateway.command('key', 'revoke', id);

  expect((await ask({ 'x-api-key': key })).status).toBe(401);
});
