import { afterEach, beforeEach, expect, test } from 'vitest';

import {
  authorizationServer,
  refusal,
  type AuthorizationServer,
} from '#support/authorization-server';

let server: AuthorizationServer;
beforeEach(async () => {
  server = await authorizationServer();
});
afterEach(() => server[Symbol.asyncDispose]());

const invalidGrant = refusal('invalid_grant');

test('a refresh token used again after the grace period revokes every token of its family', async () => {
  const first = await server.signIn();
  const second = await server.refresh(first.refreshToken);
  await server.clock.advance(31);

  await expect(server.refresh(first.refreshToken)).rejects.toMatchObject(invalidGrant);
  await expect(server.refresh(second.refreshToken)).rejects.toMatchObject(invalidGrant);
  expect(await server.admitted(first.accessToken)).toBeUndefined();
  expect(await server.admitted(second.accessToken)).toBeUndefined();
  expect(await server.audited()).toContain('refresh-token.reuse');
});

test('a refresh token used again within the grace period gives the same successor', async () => {
  const { refreshToken } = await server.signIn();
  const first = await server.refresh(refreshToken);
  await server.clock.advance(30);
  const again = await server.refresh(refreshToken);

  expect(again.refreshToken).toBe(first.refreshToken);
  expect(again.accessToken).not.toBe(first.accessToken);
});

test('twenty concurrent refreshes get one successor', async () => {
  const { refreshToken } = await server.signIn();

  const all = await Promise.all(Array.from({ length: 20 }, () => server.refresh(refreshToken)));

  expect(new Set(all.map((one) => one.refreshToken)).size).toBe(1);
});

test('once its successor was used, a token within the grace period is refused and the family stays valid', async () => {
  const { refreshToken } = await server.signIn();
  const second = await server.refresh(refreshToken);
  const third = await server.refresh(second.refreshToken);

  await expect(server.refresh(refreshToken)).rejects.toMatchObject(invalidGrant);
  expect(await server.admitted(third.accessToken)).toBeDefined();
  expect((await server.refresh(third.refreshToken)).refreshToken).toMatch(/^rt_/);
});

test('a narrower scope narrows the token, and not later requests', async () => {
  const { refreshToken } = await server.signIn();
  const narrow = await server.refresh(refreshToken, { scope: 'mcp:tools:read' });
  const full = await server.refresh(narrow.refreshToken);

  expect(narrow.scope).toBe('mcp:tools:read');
  expect(full.scope).toBe('mcp:tools:read mcp:tools:execute mcp:resources:read');
});

test('a wider scope is refused and uses up nothing', async () => {
  const { refreshToken } = await server.signIn({ scopes: ['mcp:tools:read'] });

  await expect(server.refresh(refreshToken, { scope: 'mcp:tools:execute' })).rejects.toMatchObject(
    refusal('invalid_scope'),
  );
  expect((await server.refresh(refreshToken)).scope).toBe('mcp:tools:read');
});

test('scopes of OpenID Connect are dropped', async () => {
  const { refreshToken } = await server.signIn();

  const { scope } = await server.refresh(refreshToken, { scope: 'mcp:tools:read offline_access' });

  expect(scope).toBe('mcp:tools:read');
});

test('an unused token expires after 30 days', async () => {
  const { refreshToken } = await server.signIn();
  await server.clock.advance(30 * 86_400);

  await expect(server.refresh(refreshToken)).rejects.toMatchObject(invalidGrant);
});

test('a grant ends after 180 days however often it is refreshed', async () => {
  let { refreshToken } = await server.signIn();
  for (let day = 0; day < 175; day += 25) {
    await server.clock.advance(25 * 86_400);
    ({ refreshToken } = await server.refresh(refreshToken));
  }
  await server.clock.advance(5 * 86_400 - 60);
  const last = await server.refresh(refreshToken);
  const { expiresAt } = await server.claims(last.accessToken);
  await server.clock.advance(60);

  expect(expiresAt).toBe(server.clock.now());
  await expect(server.refresh(last.refreshToken)).rejects.toMatchObject(invalidGrant);
});

test('a grant of a client that authenticated is refreshed only with authentication', async () => {
  const proof = { client_secret: server.client.secret };
  const { refreshToken } = await server.signIn({ form: proof });

  await expect(server.refresh(refreshToken)).rejects.toMatchObject(refusal('invalid_client'));
  expect((await server.refresh(refreshToken, proof)).refreshToken).toMatch(/^rt_/);
});

test('a secret that is sent is checked, required or not', async () => {
  const { refreshToken } = await server.signIn();

  await expect(
    server.refresh(refreshToken, { client_secret: 'secret_wrong' }),
  ).rejects.toMatchObject(refusal('invalid_client'));
});

test('a person who left the organization gets no more tokens', async () => {
  const { accessToken, refreshToken } = await server.signIn();
  await server.stores.db.deleteFrom('membership').execute();

  expect(await server.admitted(accessToken)).toBeUndefined();
  await expect(server.refresh(refreshToken)).rejects.toMatchObject(invalidGrant);
});

test('a refreshed token has no more scopes than the current role of the person', async () => {
  await server.stores.db.updateTable('membership').set({ role: 'admin' }).execute();
  const scopes = ['mcp:tools:read', 'mcp:server:manage'] as const;
  const { accessToken, refreshToken, scope } = await server.signIn({ scopes });
  await server.stores.db.updateTable('membership').set({ role: 'viewer' }).execute();

  expect(scope).toBe('mcp:tools:read mcp:server:manage');
  expect(await server.admitted(accessToken)).not.toContain('mcp:server:manage');
  expect((await server.refresh(refreshToken)).scope).toBe('mcp:tools:read');
});

test('the resource must be the granted one', async () => {
  const { refreshToken } = await server.signIn();
  const elsewhere = { resource: `${server.base}/mcp/acme/support` };

  await expect(server.refresh(refreshToken, elsewhere)).rejects.toMatchObject(
    refusal('invalid_target'),
  );
});

test('the database contains no usable token', async () => {
  const { refreshToken } = await server.signIn();
  const second = await server.refresh(refreshToken);

  const rows = await server.stores.db.selectFrom('refresh_token').selectAll().execute();

  expect(rows).toHaveLength(2);
  expect(JSON.stringify(rows)).not.toContain(refreshToken);
  expect(JSON.stringify(rows)).not.toContain(second.refreshToken);
});
