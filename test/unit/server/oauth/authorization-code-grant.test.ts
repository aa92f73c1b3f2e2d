import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { insertClient } from '#server/db/clients';
import { deleteConsents } from '#server/db/consents';
import { tokenEndpoint } from '#server/oauth/grants';
import { createClient } from '#server/admin/create-credentials';
import {
  authorizationServer,
  pkcePair,
  refusal,
  type AuthorizationServer,
} from '#support/authorization-server';
import { newestEvents } from '#support/newest-events';

let server: AuthorizationServer;
beforeEach(async () => {
  server = await authorizationServer();
});
afterEach(() => server[Symbol.asyncDispose]());

const invalidGrant = refusal('invalid_grant');

test('a code gives an access token that names its grant and its person, and a refresh token', async () => {
  const { accessToken, refreshToken } = await server.redeem(await server.code());

  expect(await server.claims(accessToken)).toMatchObject({
    subject: 'user_dana',
    clientId: server.client.id,
    grantId: expect.stringMatching(/^grant_\w{16}$/),
    audience: `${server.base}/mcp/acme/sales`,
  });
  expect(refreshToken).toMatch(/^rt_/);
  expect(await server.admitted(accessToken)).toContain('mcp:tools:read');
});

test('a second use revokes everything that the first use issued', async () => {
  const issued = await server.code();
  const { accessToken, refreshToken } = await server.redeem(issued);

  await expect(server.redeem(issued)).rejects.toMatchObject(invalidGrant);
  expect(await server.admitted(accessToken)).toBeUndefined();
  await expect(server.refresh(refreshToken)).rejects.toMatchObject(invalidGrant);
  expect(await server.audited()).toContain('authorization-code.reuse');
});

test('a code that is deleted while it is redeemed, because access ended, is refused without an alarm', async () => {
  const { code, verifier } = await server.code();
  const { ports, stores, client, redirectUri } = server;
  const db = stores.db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.some((row) => 'code_challenge' in row)) {
        await deleteConsents(stores.db, {
          userId: 'user_dana',
          clientId: client.id,
          serverId: 'srv_sales',
        });
      }
      return result;
    },
  });
  const form = new Map(
    Object.entries({
      grant_type: 'authorization_code',
      code,
      code_verifier: verifier,
      client_id: client.id,
      redirect_uri: redirectUri,
    }),
  );
  const url = `${server.base}/api/oauth/token`;

  const redeemed = tokenEndpoint({ form, method: 'POST', url, headers: {} }, { ...ports, db });

  await expect(redeemed).rejects.toMatchObject({
    ...invalidGrant,
    message: expect.stringContaining('access ended meanwhile'),
  });
  expect(await server.audited()).not.toContain('authorization-code.reuse');
});

test('of fifty concurrent uses of one code, one gets tokens', async () => {
  const issued = await server.code();

  const all = await Promise.allSettled(Array.from({ length: 50 }, () => server.redeem(issued)));

  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
});

describe('a code is refused', () => {
  test.each([
    ['with another redirect_uri', { redirect_uri: 'http://127.0.0.1:49153/callback' }],
    ['without redirect_uri', { redirect_uri: undefined }],
    ['that is none', { code: 'code_none' }],
  ])('%s', async (_, but) => {
    const issued = await server.code();

    await expect(server.redeem(issued, but)).rejects.toMatchObject(invalidGrant);
    expect((await server.redeem(issued)).accessToken).toBeDefined();
  });

  test('60 seconds after it was issued', async () => {
    const issued = await server.code();
    await server.clock.advance(60);

    await expect(server.redeem(issued)).rejects.toMatchObject(invalidGrant);
  });

  test('for another client', async () => {
    const issued = await server.code();
    const other = 'client_of_somebody_else';
    await insertClient(server.stores.db, {
      id: other,
      name: 'Other',
      serverId: 'srv_sales',
      scopes: [],
      redirectUris: [],
      jwks: undefined,
      secretHash: undefined,
      secretHint: undefined,
      createdAt: 0,
    });

    await expect(server.redeem(issued, { client_id: other })).rejects.toMatchObject(invalidGrant);
  });

  test('with a resource that was not granted', async () => {
    const issued = await server.code();

    await expect(
      server.redeem(issued, { resource: `${server.base}/mcp/acme/support` }),
    ).rejects.toMatchObject(refusal('invalid_target'));
  });

  test('with a wrong secret, although none is required', async () => {
    await expect(
      server.redeem(await server.code(), { client_secret: 'secret_wrong' }),
    ).rejects.toMatchObject(refusal('invalid_client'));
  });

  test('when the person has left the organization', async () => {
    const issued = await server.code();
    await server.stores.db.deleteFrom('membership').execute();

    await expect(server.redeem(issued)).rejects.toMatchObject(invalidGrant);
  });
});

describe('a code verifier', () => {
  test.each([
    ['that is another one', pkcePair().verifier],
    ['that is absent', undefined],
  ])('%s is refused, and the code with it', async (_, verifier) => {
    const issued = await server.code();

    await expect(server.redeem(issued, { code_verifier: verifier })).rejects.toMatchObject(
      invalidGrant,
    );
    await expect(server.redeem(issued)).rejects.toMatchObject(invalidGrant);
  });

  test.each([32, 43, 128])('may have %i characters', async (length) => {
    const { verifier, challenge } = pkcePair('v'.repeat(length));
    const { code } = await server.code({ challenge });

    expect((await server.redeem({ code, verifier })).refreshToken).toMatch(/^rt_/);
  });

  test.each([
    ['31 characters', 'v'.repeat(31)],
    ['129 characters', 'v'.repeat(129)],
    ['a character that is reserved', `${'v'.repeat(42)}+`],
  ])('may not have %s', async (_, text) => {
    const { verifier, challenge } = pkcePair(text);
    const { code } = await server.code({ challenge });

    await expect(server.redeem({ code, verifier })).rejects.toMatchObject(invalidGrant);
  });
});

test('a second use by another client is recorded for that client, and revokes all the same', async () => {
  const issued = await server.code();
  const { accessToken } = await server.redeem(issued);
  const other = await createClient(
    { name: 'Other', serverId: 'srv_sales', scopes: [], redirectUris: [], jwks: undefined },
    { db: server.stores.db, clock: server.clock },
  );

  await expect(server.redeem(issued, { client_id: other.id })).rejects.toMatchObject(invalidGrant);
  const [event] = await newestEvents(server.stores.db, 1);
  expect(event).toMatchObject({
    actor: `client:${other.id}`,
    action: 'authorization-code.reuse',
    target: expect.stringMatching(/^grant_/),
  });
  expect(await server.admitted(accessToken)).toBeUndefined();
});
