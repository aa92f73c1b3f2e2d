import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { insertClient, revokeClient } from '#server/db/clients';
import { revokeGrantsOfPerson } from '#server/db/person-grants';
import { fakeClock, type FakeClock } from '#support/fake-clock';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { deleteUser } from '#server/db/people';
import { newestEvents } from '#support/newest-events';

let server: GrantingServer;
let dana: Browser;
/** Another client of the same server. */
const otherId = 'client_other';
beforeAll(async () => {
  server = await grantingServer();
  dana = await server.browser();
  await insertClient(server.stores.db, {
    id: otherId,
    name: 'Other',
    serverId: 'srv_sales',
    scopes: [],
    redirectUris: [],
    jwks: undefined,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: 0,
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const events = async (at = server) =>
  (await newestEvents(at.stores.db, 10)).map(({ action }) => action);

describe('29: authorization code: a public client needs no secret', () => {
  test('where client credentials require one', async () => {
    const { status } = await server.post('/api/oauth/token', {
      grant_type: 'client_credentials',
      client_id: server.client.id,
    });

    expect(status).toBe(401);
    expect((await server.redeem(await server.code(dana))).status).toBe(200);
  });

  test('but a secret that is sent must be right', async () => {
    const issued = await server.code(dana);
    const wrong = await server.redeem(issued, { client_secret: `secret_${'0'.repeat(36)}` });
    const right = await server.redeem(issued, { client_secret: server.client.secret });

    expect(wrong).toMatchObject({ status: 401, json: { error: 'invalid_client' } });
    expect(right.status).toBe(200);
  });
});

test('24: token response: it contains what RFC 6749 requires and is not cached', async () => {
  const { headers, json } = await server.redeem(await server.code(dana));

  expect(headers.get('cache-control')).toBe('no-store');
  expect(json).toEqual({
    access_token: expect.stringMatching(/^eyJ/),
    token_type: 'Bearer',
    expires_in: 3600,
    scope: 'mcp:tools:read mcp:tools:execute',
    refresh_token: expect.stringMatching(/^rt_[0-9A-Za-z]{36}$/),
  });
});

test.each([
  ['another redirect_uri', { redirect_uri: 'http://127.0.0.1:1/callback' }],
  ['no redirect_uri', { redirect_uri: undefined }],
])('31: authorization code: with %s it is invalid_grant', async (_, but) => {
  expect(await server.redeem(await server.code(dana), but)).toMatchObject({
    status: 400,
    json: { error: 'invalid_grant' },
  });
});

test('31: authorization code: one of another client is invalid_grant', async () => {
  expect(await server.redeem(await server.code(dana), { client_id: otherId })).toMatchObject({
    status: 400,
    json: { error: 'invalid_grant' },
  });
});

test.each([
  ['another', 'w'.repeat(43)],
  ['no', undefined],
  ['a verifier of 31 characters', 'v'.repeat(31)],
  ['a verifier of 129 characters', 'v'.repeat(129)],
])('32: PKCE: %s code_verifier invalidates the code', async (_, verifier) => {
  const issued = await server.code(dana);
  const wrong = await server.redeem(issued, { code_verifier: verifier });
  const right = await server.redeem(issued);

  expect([wrong.status, wrong.json['error']]).toEqual([400, 'invalid_grant']);
  expect([right.status, right.json['error']]).toEqual([400, 'invalid_grant']);
});

test('33: PKCE: no code is issued without a challenge', async () => {
  const answer = await server.authorize(dana, {
    code_challenge: undefined,
    code_challenge_method: undefined,
  });

  expect(new URL(answer.headers.get('location') ?? '').searchParams.has('code')).toBe(false);
});

test('34: authorization code: a second use revokes what the first one issued', async () => {
  const issued = await server.code(dana);
  const first = await server.redeem(issued);
  const accessToken = String(first.json['access_token']);
  expect(await server.call(accessToken)).toBe(200);

  const second = await server.redeem(issued);

  expect(second).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
  expect(await server.call(accessToken)).toBe(401);
  expect((await server.refresh(String(first.json['refresh_token']))).status).toBe(400);
  expect(await events()).toContain('authorization-code.reuse');
});

test('35: authorization code: of fifty concurrent exchanges exactly one succeeds', async () => {
  const issued = await server.code(dana);

  const all = await Promise.all(Array.from({ length: 50 }, () => server.redeem(issued)));

  expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
});

test('38: refresh token: two concurrent uses get the same successor, which continues one chain', async () => {
  const { refreshToken } = await server.signIn(dana);
  const [one, two] = await Promise.all([
    server.refresh(refreshToken),
    server.refresh(refreshToken),
  ]);
  const next = await server.refresh(String(one.json['refresh_token']));
  const old = await server.refresh(refreshToken);

  expect(one.json['refresh_token']).toBe(two.json['refresh_token']);
  expect(old).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
  expect(await server.call(String(next.json['access_token']))).toBe(200);
  expect((await server.refresh(String(next.json['refresh_token']))).status).toBe(200);
});

test('39: refresh token: for its own client only; scopes can be narrowed but not widened', async () => {
  const { refreshToken } = await server.signIn(dana);
  const foreign = await server.refresh(refreshToken, { client_id: otherId });
  const wider = await server.refresh(refreshToken, { scope: 'mcp:resources:read' });
  const narrow = await server.refresh(refreshToken, { scope: 'mcp:tools:read' });
  const full = await server.refresh(String(narrow.json['refresh_token']));

  expect(foreign.json['error']).toBe('invalid_grant');
  expect(wider.json['error']).toBe('invalid_scope');
  expect(narrow.json['scope']).toBe('mcp:tools:read');
  expect(full.json['scope']).toBe('mcp:tools:read mcp:tools:execute');
});

test('41: resource: it must be what was granted, and the audience is exactly that', async () => {
  const { accessToken, refreshToken } = await server.signIn(dana);
  const other = await server.refresh(refreshToken, { resource: `${server.base}/mcp/acme/support` });
  const [, payload = ''] = accessToken.split('.');

  expect(other.json['error']).toBe('invalid_target');
  expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({
    aud: `${server.base}/mcp/acme/sales`,
    sub: dana.userId,
    grant_id: expect.stringMatching(/^grant_/),
  });
});

test('47: refresh token: revoked with its access tokens, by client_id alone for a public client', async () => {
  const { accessToken, refreshToken } = await server.signIn(dana);
  const { status } = await server.post('/api/oauth/revoke', {
    token: refreshToken,
    client_id: server.client.id,
  });

  expect(status).toBe(200);
  expect(await server.call(accessToken)).toBe(401);
  expect((await server.refresh(refreshToken)).status).toBe(400);
  expect(await events()).toContain('grant.revoke');
});

test('47: refresh token: revoking another client’s one gets 200 and has no effect', async () => {
  const { accessToken, refreshToken } = await server.signIn(dana);
  const { status } = await server.post('/api/oauth/revoke', {
    token: refreshToken,
    client_id: otherId,
  });

  expect(status).toBe(200);
  expect(await server.call(accessToken)).toBe(200);
  expect((await server.refresh(refreshToken)).status).toBe(200);
});

test('47: refresh token: a confidential client can revoke it only by authenticating', async () => {
  const proof = { client_secret: server.client.secret };
  const { json } = await server.redeem(await server.code(dana), proof);
  const token = String(json['refresh_token']);
  const bare = await server.post('/api/oauth/revoke', { token, client_id: server.client.id });
  const access = await server.post('/api/oauth/revoke', {
    token: String(json['access_token']),
    client_id: server.client.id,
  });

  expect([bare.status, access.status]).toEqual([401, 401]);
  expect((await server.refresh(token, proof)).status).toBe(200);
});

describe('48: a grant and all its tokens end immediately with', () => {
  test.each([
    [
      'the membership',
      (id: string) =>
        server.stores.db.deleteFrom('membership').where('person_id', '=', id).execute(),
    ],
    ['the person', (id: string) => deleteUser(server.stores.db, id)],
    ['the password', (id: string) => revokeGrantsOfPerson(server.stores.db, id, 1)],
  ])('%s', async (_, end) => {
    const eve = await server.browser();
    const { accessToken, refreshToken } = await server.signIn(eve);
    expect(await server.call(accessToken)).toBe(200);

    await end(eve.userId);

    expect(await server.call(accessToken)).toBe(401);
    expect((await server.refresh(refreshToken)).status).toBe(400);
  });

  test('the client', async () => {
    await using own = await grantingServer();
    const { accessToken, refreshToken } = await own.signIn(await own.browser());

    await revokeClient(own.stores.db, own.client.id, 1);

    expect(await own.call(accessToken)).toBe(401);
    expect((await own.refresh(refreshToken)).status).toBe(401);
  });
});

describe('49: introspection', () => {
  const introspect = (fields: Record<string, string>) =>
    server.post('/api/oauth/introspect', {
      client_id: server.client.id,
      client_secret: server.client.secret,
      ...fields,
    });

  test('it requires client authentication', async () => {
    const { status } = await server.post('/api/oauth/introspect', {
      client_id: server.client.id,
      token: 'x',
    });

    expect(status).toBe(401);
  });

  test('it describes a valid access token and a valid refresh token', async () => {
    const { accessToken, refreshToken } = await server.signIn(dana);

    expect((await introspect({ token: accessToken })).json).toMatchObject({
      active: true,
      sub: dana.userId,
      scope: 'mcp:tools:read mcp:tools:execute',
      client_id: server.client.id,
    });
    expect((await introspect({ token: refreshToken })).json).toMatchObject({ active: true });
  });

  test('it reports garbage, revoked and spent tokens as inactive', async () => {
    const { accessToken, refreshToken } = await server.signIn(dana);
    const { json } = await server.refresh(refreshToken);
    const spent = await introspect({ token: refreshToken });
    await server.post('/api/oauth/revoke', {
      token: String(json['refresh_token']),
      client_id: server.client.id,
    });

    expect(spent.json).toEqual({ active: false });
    for (const token of ['garbage', accessToken, String(json['refresh_token'])]) {
      expect((await introspect({ token })).json).toEqual({ active: false });
    }
  });
});

describe('codes and refresh tokens with a fake clock', () => {
  let clock: FakeClock;
  let timed: GrantingServer;
  let eve: Browser;
  beforeAll(async () => {
    clock = fakeClock();
    timed = await grantingServer({ clock });
    eve = await timed.browser();
  });
  afterAll(() => timed[Symbol.asyncDispose]());

  test('36: authorization code: it expires after 60 seconds', async () => {
    const issued = await timed.code(eve);
    await clock.advance(60);

    expect((await timed.redeem(issued)).json['error']).toBe('invalid_grant');
  });

  test('37: refresh token: a use after the grace period revokes its whole family', async () => {
    const { accessToken, refreshToken } = await timed.signIn(eve);
    const { json } = await timed.refresh(refreshToken);
    await clock.advance(31);
    const reused = await timed.refresh(refreshToken);

    expect(reused).toMatchObject({ status: 400, json: { error: 'invalid_grant' } });
    expect((await timed.refresh(String(json['refresh_token']))).status).toBe(400);
    expect(await timed.call(accessToken)).toBe(401);
    expect(await timed.call(String(json['access_token']))).toBe(401);
    expect(await events(timed)).toContain('refresh-token.reuse');
  });

  test('40: refresh token: it expires after 30 days without use', async () => {
    const { refreshToken } = await timed.signIn(eve);
    await clock.advance(30 * 86_400);

    expect((await timed.refresh(refreshToken)).json['error']).toBe('invalid_grant');
  });

  test('40: grant: it ends after 180 days', async () => {
    let { refreshToken } = await timed.signIn(await timed.browser());
    for (let month = 0; month < 6; month += 1) {
      await clock.advance(29 * 86_400);
      refreshToken = String((await timed.refresh(refreshToken)).json['refresh_token']);
    }
    await clock.advance(6 * 86_400);

    expect((await timed.refresh(refreshToken)).json['error']).toBe('invalid_grant');
  });
});
