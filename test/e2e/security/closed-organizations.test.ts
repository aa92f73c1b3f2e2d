import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { openStores } from '#server/stores';
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
  await allowOpenClients(true);
  dana = await server.browser();
});

/** As another process than the server's changes the setting. */
async function allowOpenClients(openClientsAllowed: boolean) {
  const stores = await openStores(server.dataDir);
  await updateSettings(stores.db, 'org_acme', { openClientsAllowed });
  await stores.close();
}

const asked = (clientId: string) => ({
  client_id: clientId,
  redirect_uri: redirectUri,
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
  ['a client that registered itself', () => registeredId],
  ['a client of a metadata document', () => documentUrl],
])('94: closed organization: %s', (_, idOf) => {
  test('has its access tokens refused from the next call on, until the organization opens again', async () => {
    const { accessToken } = await signIn(idOf());
    const before = await server.call(accessToken);
    await allowOpenClients(false);
    const closed = await server.call(accessToken);
    await allowOpenClients(true);

    expect([before, closed, await server.call(accessToken)]).toEqual([200, 401, 200]);
  });

  test('cannot refresh, and loses no refresh token by trying', async () => {
    const { refreshToken } = await signIn(idOf());
    await allowOpenClients(false);
    const closed = await server.refresh(refreshToken, { client_id: idOf() });
    await allowOpenClients(true);

    expect(closed).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
    expect(closed.json['error_description']).toContain('administrator');
    expect((await server.refresh(refreshToken, { client_id: idOf() })).status).toBe(200);
  });

  test('cannot redeem a code issued earlier', async () => {
    const issued = await server.code(dana, asked(idOf()));
    await allowOpenClients(false);
    const closed = await server.redeem(issued, asked(idOf()));

    expect(closed).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
  });

  test('gets no code, although the person had allowed it', async () => {
    await server.code(dana, asked(idOf()));
    await allowOpenClients(false);
    const answer = await server.authorize(dana, asked(idOf()));

    expect(answer.headers.get('location') ?? '').not.toContain('code=');
    expect(await answer.text()).not.toContain('value="allow"');
  });

  test('loses an open stream', async () => {
    const { accessToken } = await signIn(idOf());
    const stream = await openStream(accessToken);
    await allowOpenClients(false);
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
