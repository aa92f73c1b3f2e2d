import { generateKeyPairSync, randomUUID } from 'node:crypto';

import { exportJWK, SignJWT } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { createProvedClient } from '#server/admin/create-credentials';
import { fakeClock } from '#support/fake-clock';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';

type Fields = Record<string, string>;
/** A client, and what it proves itself with. */
interface Made {
  readonly id: string;
  readonly proof: () => Promise<Fields>;
}

const redirectUri = 'https://client.test/cb';
const clock = fakeClock();
const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const documents = new Map<string, string>();
let server: GrantingServer;
let dana: Browser;
let resource: string;

beforeAll(async () => {
  server = await grantingServer({
    clock,
    fetchDocument: async (url) => documents.get(url) ?? '',
    args: ['--dynamic-registration'],
  });
  resource = `${server.base}/mcp/acme/sales`;
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  // An address that failed to authenticate too often would have to wait.
  await clock.advance(301);
  dana = await server.browser();
});

async function registered(method: string | undefined): Promise<Made> {
  const answer = await fetch(`${server.base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [redirectUri], token_endpoint_auth_method: method }),
  });
  const { client_id: id, client_secret: secret } = Object(await answer.json());
  return { id, proof: async () => ({ client_secret: String(secret) }) };
}

async function assertion(id: string): Promise<Fields> {
  const signed = await new SignJWT({ jti: randomUUID(), iss: id, sub: id, aud: server.base })
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .setIssuedAt(clock.now())
    .setExpirationTime(clock.now() + 60)
    .sign(keys.privateKey);
  const type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
  return { client_assertion: signed, client_assertion_type: type };
}

const jwks = async () => ({ keys: [{ ...(await exportJWK(keys.publicKey)), kid: 'k' }] });

async function described(but: object): Promise<Made> {
  const id = `https://client.test/${randomUUID()}.json`;
  documents.set(id, JSON.stringify({ client_id: id, redirect_uris: [redirectUri], ...but }));
  return { id, proof: () => assertion(id) };
}

async function keyed(): Promise<Made> {
  const chosen = { name: 'Keyed', serverId: 'srv_sales', redirectUris: [redirectUri] };
  const made = await createProvedClient(
    { ...chosen, scopes: ['mcp:tools:read'], jwks: await jwks() },
    { db: server.stores.db, clock },
  );
  return { id: made.id, proof: () => assertion(made.id) };
}

const asked = (id: string) => ({
  client_id: id,
  redirect_uri: redirectUri,
  scope: 'mcp:tools:read',
  resource,
});
const code = (id: string) => server.code(dana, asked(id));
const refused = { status: 401, json: { error: 'invalid_client' } };

describe.each<[string, () => Promise<Made>]>([
  ['registered for client_secret_basic', () => registered('client_secret_basic')],
  ['registered for client_secret_post', () => registered('client_secret_post')],
  ['registered without naming a method', () => registered(undefined)],
  [
    'described with private_key_jwt',
    async () => described({ token_endpoint_auth_method: 'private_key_jwt', jwks: await jwks() }),
  ],
  ['created by an administrator with keys', keyed],
])('101: client authentication: a client %s', (_, make) => {
  test('cannot redeem a code without authenticating, and the code stays valid', async () => {
    const { id, proof } = await make();
    const issued = await code(id);
    const bare = await server.redeem(issued, asked(id));
    const proved = await server.redeem(issued, { ...asked(id), ...(await proof()) });

    expect(bare).toMatchObject(refused);
    expect(proved.status).toBe(200);
  });

  test('cannot refresh, revoke or introspect without authenticating', async () => {
    const { id, proof } = await make();
    const issued = await code(id);
    const { json } = await server.redeem(issued, { ...asked(id), ...(await proof()) });
    const accessToken = String(json['access_token']);
    const refreshToken = String(json['refresh_token']);
    const post = (path: string, token: string) => server.post(path, { client_id: id, token });

    expect(await server.refresh(refreshToken, { client_id: id })).toMatchObject(refused);
    expect(await post('/api/oauth/revoke', refreshToken)).toMatchObject(refused);
    expect(await post('/api/oauth/revoke', accessToken)).toMatchObject(refused);
    expect(await post('/api/oauth/revoke', 'unknown')).toMatchObject(refused);
    expect(await post('/api/oauth/introspect', refreshToken)).toMatchObject(refused);
    expect(await server.call(accessToken)).toBe(200);
    expect((await server.refresh(refreshToken, { client_id: id, ...(await proof()) })).status).toBe(
      200,
    );
  });

  test('cannot refresh without authenticating, however its code was redeemed', async () => {
    const { id, proof } = await make();
    const issued = await code(id);
    const { json } = await server.redeem(issued, { ...asked(id), ...(await proof()) });
    await server.stores.db.updateTable('oauth_grant').set({ authenticated: 0 }).execute();
    const refreshToken = String(json['refresh_token']);

    expect(await server.refresh(refreshToken, { client_id: id })).toMatchObject(refused);
  });
});

describe.each<[string, () => Promise<Made>]>([
  ['registered for none', () => registered('none')],
  ['described with none', () => described({ token_endpoint_auth_method: 'none' })],
  [
    'created by an administrator with a secret',
    async () => ({ id: server.client.id, proof: async () => ({}) }),
  ],
])('101: public client: a client %s', (_, make) => {
  test('can redeem, refresh and revoke without a secret', async () => {
    const { id } = await make();
    const but =
      id === server.client.id ? { ...asked(id), redirect_uri: server.redirectUri } : asked(id);
    const redeemed = await server.redeem(await server.code(dana, but), but);
    const refreshToken = String(redeemed.json['refresh_token']);
    const refreshed = await server.refresh(refreshToken, { client_id: id });
    const next = String(refreshed.json['refresh_token']);
    const revoked = await server.post('/api/oauth/revoke', { client_id: id, token: next });

    expect([redeemed.status, refreshed.status, revoked.status]).toEqual([200, 200, 200]);
    expect((await server.refresh(next, { client_id: id })).status).toBe(400);
  });
});

test('101: client authentication: a document that changes to private_key_jwt ends refresh without it', async () => {
  const { id, proof } = await described({ token_endpoint_auth_method: 'none' });
  const { json } = await server.redeem(await code(id), asked(id));
  const refreshToken = String(json['refresh_token']);
  const said = { client_id: id, redirect_uris: [redirectUri] };
  const changed = { token_endpoint_auth_method: 'private_key_jwt', jwks: await jwks() };
  documents.set(id, JSON.stringify({ ...said, ...changed }));
  await clock.advance(3600);
  await server.authorize(dana, asked(id));

  expect(await server.refresh(refreshToken, { client_id: id })).toMatchObject(refused);
  expect((await server.refresh(refreshToken, { client_id: id, ...(await proof()) })).status).toBe(
    200,
  );
});
