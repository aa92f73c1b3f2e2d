import { afterAll, beforeEach, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { initialize, mcpCall, modern, toolsList } from '#support/mcp-call';
import { sessionUpstream } from '#support/upstreams/session-upstream';
import { patient } from '#support/patient';

const upstream = await sessionUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { base, command, endpoint } = gateway;

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

beforeEach(() => upstream.forget());

type Credential = { key: string } | { token: string };

/** A session of the older era; the headers of what belongs to it. */
async function session(credential: Credential) {
  const { headers } = await mcpCall(endpoint, { ...credential, body: initialize() });
  return { 'mcp-session-id': headers.get('mcp-session-id') ?? '' };
}

/** A call that waits for what its upstream asked. */
async function interrupted(credential: Credential) {
  const { body, headers } = modern('tools/call', { name: 'ask', arguments: {} });
  const asking = body.replace('Capabilities":{}', 'Capabilities":{"sampling":{}}');
  return mcpCall(endpoint, { ...credential, headers, body: asking });
}

async function newClient() {
  const scope = ['--scope', 'mcp:tools:read'];
  const made = await command('client', 'create', 'acme/fixture', '--name', 'c', ...scope);
  const id = String(made['client_id']);
  const secret = { client_id: id, client_secret: String(made['client_secret']) };
  const post = (path: string, form: Record<string, string>) =>
    fetch(`${base}/api/oauth/${path}`, { method: 'POST', body: new URLSearchParams(form) });
  const token = async () => {
    const answer = await post('token', { grant_type: 'client_credentials', ...secret });
    return String(Object(await answer.json())['access_token']);
  };
  const revoke = (gone: string) => post('revoke', { token: gone, ...secret });
  return { id, token, revoke };
}

/** What the upstream keeps besides the sessions in `others`. */
const beside = (others: readonly string[]) => () =>
  upstream.sessions().filter((id) => !others.includes(id)).length;

test('71: upstream sessions: a key’s revocation ends all that it opened, and nothing of others', async () => {
  const [staying, leaving] = [
    await gateway.newKey('acme/fixture'),
    await gateway.newKey('acme/fixture'),
  ];
  const kept = await session({ key: staying.key });
  const others = upstream.sessions();
  await session({ key: leaving.key });
  await mcpCall(endpoint, { key: leaving.key });
  const asked = await interrupted({ key: leaving.key });

  expect(asked.text).toContain('"resultType":"input_required"');
  expect(beside(others)()).toBe(3);

  await command('key', 'revoke', leaving.id);

  await expect.poll(beside(others), patient).toBe(0);
  const answer = await mcpCall(endpoint, { key: staying.key, headers: kept });
  expect([answer.status, upstream.sessions()]).toEqual([200, others]);
});

test('71: upstream sessions: one outlives the token that opened it, and ends with its client', async () => {
  const [client, other] = [await newClient(), await newClient()];
  const first = await client.token();
  const headers = await session({ token: first });
  await client.revoke(first);
  const others = upstream.sessions();
  await session({ token: await other.token() });
  await command('client', 'revoke', other.id);
  // By then the server has looked for all owners that have lost access.
  await expect.poll(beside(others), patient).toBe(0);

  expect(await mcpCall(endpoint, { token: first, headers })).toMatchObject({ status: 401 });
  const second = await client.token();
  expect(await mcpCall(endpoint, { token: second, headers })).toMatchObject({ status: 200 });

  await command('client', 'revoke', client.id);

  await expect.poll(upstream.sessions, patient).toEqual([]);
});

test('71: upstream sessions: disabling a server ends every one', async () => {
  const { key } = await gateway.newKey('acme/fixture');
  await session({ key });
  await mcpCall(endpoint, { key, body: toolsList });
  expect(upstream.sessions()).toHaveLength(2);

  await command('server', 'disable', 'acme/fixture');

  await expect.poll(upstream.sessions, patient).toEqual([]);
});
