import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { openStores } from '#server/app/stores';
import { fakeClock } from '#support/fake-clock';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { modern } from '#support/mcp-call';
import { updateSettings } from '#server/db/settings';

const documentUrl = 'https://client.test/app.json';
const redirectUri = 'https://client.test/cb';
const document = JSON.stringify({
  client_id: documentUrl,
  client_name: 'Described',
  redirect_uris: [redirectUri],
});
let server: GrantingServer;
let dana: Browser;
let registeredId: string;

beforeAll(async () => {
  server = await grantingServer({
    clock: fakeClock(),
    fetchDocument: async () => document,
    args: ['--dynamic-registration'],
  });
  const answer = await fetch(`${server.base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' }),
  });
  registeredId = String(Object(await answer.json())['client_id']);
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await change({ openClientsAllowed: true, latchkeyProxyAllowed: true });
  dana = await server.browser();
});

const allowOpenClients = (openClientsAllowed: boolean) => change({ openClientsAllowed });
const allowProxy = (latchkeyProxyAllowed: boolean) => change({ latchkeyProxyAllowed });

/** Changes settings as a process other than the server does. */
async function change(settings: Parameters<typeof updateSettings>[2]) {
  const stores = await openStores(server.dataDir);
  await updateSettings(stores.db, 'org_acme', settings);
  await stores.close();
}

const proxyId = () => `${server.base}/oauth/clients/latchkey.json`;

const asked = (clientId: string) => ({
  client_id: clientId,
  redirect_uri: clientId === proxyId() ? 'http://127.0.0.1:50123/callback' : redirectUri,
  resource: `${server.base}/mcp/acme/sales`,
});

async function signIn(clientId: string) {
  const but = asked(clientId);
  const { json } = await server.redeem(await server.code(dana, but), but);
  return {
    accessToken: String(json['access_token']),
    refreshToken: String(json['refresh_token']),
  };
}

describe.each([
  ['a client that registered itself', () => registeredId, allowOpenClients],
  ['a client of a metadata document', () => documentUrl, allowOpenClients],
  ['Latchkey’s own proxy', proxyId, allowProxy],
])('94: closed organization: %s', (_, idOf, allow) => {
  test('has its access tokens refused from the next call on, until the organization opens again', async () => {
    const { accessToken } = await signIn(idOf());
    const before = await server.call(accessToken);
    await allow(false);
    const closed = await server.call(accessToken);
    await allow(true);

    expect([before, closed, await server.call(accessToken)]).toEqual([200, 401, 200]);
  });

  test('cannot refresh, and loses no refresh token by trying', async () => {
    const { refreshToken } = await signIn(idOf());
    await allow(false);
    const closed = await server.refresh(refreshToken, { client_id: idOf() });
    await allow(true);

    expect(closed).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
    expect(closed.json['error_description']).toContain('administrator');
    expect((await server.refresh(refreshToken, { client_id: idOf() })).status).toBe(200);
  });

  test('gets the reason that it is suspended, which no one without its token gets', async () => {
    const { accessToken, refreshToken } = await signIn(idOf());
    await allow(false);
    const closed = await called(accessToken);
    const refused = await server.refresh(refreshToken, { client_id: idOf() });
    const unknown = await called('eyJhbGciOiJFZERTQSJ9.e30.AAAA');

    expect(closed).toMatchObject({ status: 401, message: expect.stringMatching(/^suspended: /) });
    expect(closed.challenge).toContain(
      `error="invalid_token", error_description="${closed.message}"`,
    );
    expect(refused.json['error_description']).toBe(closed.message);
    expect(unknown.message).toBe('invalid or expired credentials');
    expect(unknown.challenge).not.toContain('error_description');
  });

  test('cannot redeem a code issued earlier', async () => {
    const issued = await server.code(dana, asked(idOf()));
    await allow(false);
    const closed = await server.redeem(issued, asked(idOf()));

    expect(closed).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
  });

  test('gets no code, although the person had allowed it', async () => {
    await server.code(dana, asked(idOf()));
    await allow(false);
    const answer = await server.authorize(dana, asked(idOf()));

    expect(answer.headers.get('location') ?? '').not.toContain('code=');
    expect(await answer.text()).not.toContain('value="allow"');
  });

  test('loses an open stream', async () => {
    const { accessToken } = await signIn(idOf());
    const stream = await openStream(accessToken);
    await allow(false);
    await stream.ended;

    expect(stream.status).toBe(200);
  });
});

test('94: closed organization: clients of an administrator keep their tokens', async () => {
  const { accessToken, refreshToken } = await server.signIn(dana);
  await allowOpenClients(false);

  expect(await server.call(accessToken)).toBe(200);
  expect((await server.refresh(refreshToken)).status).toBe(200);
});

test('94: closed organization: each switch leaves the applications of the other one alone', async () => {
  const proxy = await signIn(proxyId());
  const described = await signIn(documentUrl);
  const statuses = async () => [
    await server.call(proxy.accessToken),
    await server.call(described.accessToken),
  ];
  await allowOpenClients(false);
  const withoutApps = await statuses();
  await change({ openClientsAllowed: true, latchkeyProxyAllowed: false });

  expect(withoutApps).toEqual([200, 401]);
  expect(await statuses()).toEqual([401, 200]);
});

test('94: closed organization: a disabled server suspends tokens, which can still be revoked', async () => {
  const kept = await signIn(proxyId());
  const revoked = await signIn(proxyId());
  const stores = await openStores(server.dataDir);
  const disable = (disabledAt: number | null) =>
    stores.db.updateTable('endpoint').set({ disabled_at: disabledAt }).execute();
  await disable(1);
  const called401 = await called(kept.accessToken);
  const refused = await server.refresh(kept.refreshToken, { client_id: proxyId() });
  await server.post('/api/oauth/revoke', { token: revoked.refreshToken, client_id: proxyId() });
  await disable(null);
  await stores.close();

  const words = 'suspended: an administrator disabled this MCP server';
  expect(called401).toMatchObject({ status: 401, message: words });
  expect(refused).toMatchObject({ status: 400, json: { error_description: words } });
  expect((await server.refresh(kept.refreshToken, { client_id: proxyId() })).status).toBe(200);
  expect(await server.call(revoked.accessToken)).toBe(401);
});

test('94: closed organization: introspection reports tokens of registered clients as inactive', async () => {
  const answer = await fetch(`${server.base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [redirectUri] }),
  });
  const { client_id: id, client_secret: secret } = Object(await answer.json());
  const proof = { client_id: String(id), client_secret: String(secret) };
  const but = { ...asked(proof.client_id), client_secret: proof.client_secret };
  const { json } = await server.redeem(await server.code(dana, asked(proof.client_id)), but);
  const active = async () =>
    Promise.all(
      ['access_token', 'refresh_token'].map(async (name) => {
        const fields = { ...proof, token: String(json[name]) };
        return (await server.post('/api/oauth/introspect', fields)).json['active'];
      }),
    );
  const before = await active();
  await allowOpenClients(false);

  expect(before).toEqual([true, true]);
  expect(await active()).toEqual([false, false]);
});

/** What the endpoint answers to a call with a token. */
async function called(accessToken: string) {
  const answer = await fetch(`${server.base}/mcp/acme/sales`, {
    method: 'POST',
    headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  const message = String(Object(Object(await answer.json())['error'])['message']);
  return { status: answer.status, message, challenge: answer.headers.get('www-authenticate') };
}

async function openStream(accessToken: string) {
  const { headers, body } = modern('subscriptions/listen', {
    notifications: { toolsListChanged: true },
  });
  const stream = await fetch(`${server.base}/mcp/acme/sales`, {
    method: 'POST',
    headers: {
      ...headers,
      authorization: `Bearer ${accessToken}`,
      'content-type': 'application/json',
    },
    body,
  });
  const read = async () => {
    for await (const _ of stream.body ?? []);
  };
  return { status: stream.status, ended: read().catch(() => undefined) };
}
