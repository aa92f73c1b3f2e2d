import { afterAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';

import { findOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { legacyAnswer, recordingUpstream, sendJson } from '#support/upstreams/recording-upstream';

/** What the upstream says of its tools. */
let annotations: object = {};
const upstream = await recordingUpstream();
upstream.answer = (request, response) => {
  if (!request.body.includes('"tools/list"')) return legacyAnswer(request, response);
  const { id } = z.object({ id: z.unknown() }).parse(JSON.parse(request.body.toString()));
  const tool = (name: string) => ({ name, inputSchema: { type: 'object' } });
  const look = { ...tool('look'), annotations };
  const tools = [tool('echo'), tool('drop'), tool('hide'), look];
  sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: { tools } }));
};
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { endpoint, key, command } = gateway;
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const server = 'acme/fixture';
const list = (withKey = key) => mcpCall(endpoint, { key: withKey });
const call = (name: unknown, withKey = key) =>
  mcpCall(endpoint, { key: withKey, body: rpc('tools/call', { name, arguments: {} }) });
const callsAtUpstream = () =>
  upstream.calls().filter(({ body }) => body.includes('"tools/call"')).length;

await list();
await command('group', 'create', 'acme', 'finance');
beforeEach(() => {
  upstream.requests.length = 0;
});

test('179: rights per tool: no other spelling of a closed name reaches the upstream', async () => {
  await command('tool', 'restrict', server, 'drop', '--group', 'finance');
  const spellings = [
    'drop',
    'DROP',
    'drop ',
    'drop\u0000',
    'ｄｒｏｐ',
    'dro\u200bp',
    'ḋrop',
    'echo/../drop',
  ];
  const codes = [];
  for (const name of spellings) codes.push((await call(name)).errorCode);
  for (const name of [['drop'], { name: 'drop' }, null, 1])
    codes.push((await call(name)).errorCode);
  const escaped = String.raw`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u0064rop","arguments":{}}}`;
  codes.push((await mcpCall(endpoint, { key, body: escaped })).errorCode);

  expect(codes).toEqual(codes.map(() => -32_602));
  expect(callsAtUpstream()).toBe(0);
});

test('180: rights per tool: a header that names an open tool does not open the closed one of the body', async () => {
  const { body, headers } = modern('tools/call', { name: 'drop', arguments: {} });
  const named = await mcpCall(endpoint, { key, body, headers: { ...headers, 'mcp-name': 'echo' } });
  const alike = await mcpCall(endpoint, { key, body, headers });

  expect([named.errorCode, alike.errorCode]).toEqual([-32_020, -32_602]);
  expect(callsAtUpstream()).toBe(0);
});

test('181: rights per tool: closed, hidden and unknown names get the same answer, byte for byte', async () => {
  await command('server', 'hide-tools', server, '--tool', 'hide');
  const answers = [];
  for (const name of ['drop', 'hide', 'none']) {
    const { status, text, headers } = await call(name);
    const sent = [...headers].filter(([header]) => header !== 'date' && header !== 'x-request-id');
    answers.push({ status, text: text.replaceAll(name, 'NAME'), sent });
  }

  expect(answers[1]).toEqual(answers[0]);
  expect(answers[2]).toEqual(answers[0]);
  expect(callsAtUpstream()).toBe(0);
});

test('182: rights per tool: what another process decides counts on the next call', async () => {
  const outcomes = [];
  for (const words of [['open'], ['restrict', '--group', 'finance'], ['open']]) {
    const [word = '', ...options] = words;
    await command('tool', word, server, 'drop', ...options);
    outcomes.push((await call('drop')).errorCode, (await list()).text.includes('"drop"'));
  }

  expect(outcomes).toEqual([undefined, true, -32_602, false, undefined, true]);
});

test('183: rights per tool: a key for reading only uses what an administrator accepted as such, until the server changes it', async () => {
  const reader = (await gateway.newKey(server, '--tools', 'read-only')).key;
  annotations = { readOnlyHint: true };
  await list();
  const claimed = await call('look', reader);
  await command('tool', 'accept', server, 'look');
  const accepted = await call('look', reader);
  annotations = { readOnlyHint: true, destructiveHint: true };
  await list();
  const changed = await call('look', reader);

  const codes = [claimed, accepted, changed].map(({ errorCode }) => errorCode);
  expect(codes).toEqual([-32_602, undefined, -32_602]);
  expect((await list(reader)).text).not.toContain('"echo"');
});

test('184: rights per tool: a group that rules name cannot be deleted, and a key does not inherit what a group may', async () => {
  await command('tool', 'restrict', server, 'drop', '--group', 'finance');
  const removal = command('group', 'delete', 'acme', 'finance');

  await expect(removal).rejects.toThrow(/drop|tool/);
  expect((await call('drop')).errorCode).toBe(-32_602);
});

test('185: rights per tool: the admin API lists to a viewer what they can use, and nothing else', async () => {
  const stores = await gateway.openStores();
  const organizationId = (await findOrganization(stores.db, 'acme'))?.id ?? '';
  const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: 1 };
  await insertUser(stores.db, dana, { organizationId, role: 'viewer' });
  await stores.close();
  const { token } = await command('token', 'create', dana.email, '--name', 'script');
  const path = '/api/admin/organizations/acme/servers/fixture/tools';
  const headers = { authorization: `Bearer ${String(token)}` };
  const answer = await fetch(gateway.base + path, { headers });

  const { items } = z
    .object({ items: z.array(z.object({ name: z.string() })) })
    .parse(await answer.json());
  expect(items.map(({ name }) => name)).toEqual(['echo', 'look']);
});
