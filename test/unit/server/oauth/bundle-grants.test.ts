import { afterEach, beforeEach, expect, test } from 'vitest';
import { updateSettings } from '#server/db/settings';
import { insertClient } from '#server/db/clients';
import { removeMember } from '#server/db/people';
import { issueBundleCode } from '#server/oauth/bundle-consent';
import { tokenEndpoint } from '#server/oauth/grants';
import { parseServerPath } from '#server/model/slug';
import { sqliteAdmissions } from '#server/db/sqlite/admission-store';
import { active } from '#server/gateway/admission';
import { addServers } from '#support/bundle-client';
import {
  authorizationServer,
  pkcePair,
  refusal,
  type AuthorizationServer,
} from '#support/authorization-server';

const redirectUri = 'http://127.0.0.1:49152/callback';
const clientId = 'client_proxy';
let server: AuthorizationServer;
beforeEach(async () => {
  server = await authorizationServer();
  await addServers(server, ['wiki', 'crm']);
  await insertClient(server.stores.db, {
    id: clientId,
    name: 'Several',
    serverId: undefined,
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    redirectUris: ['http://127.0.0.1/callback'],
    jwks: undefined,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: server.clock.now(),
  });
});
afterEach(() => server[Symbol.asyncDispose]());

type Fields = Record<string, string>;
const invalidGrant = refusal('invalid_grant');
const invalidTarget = refusal('invalid_target');
const url = (name: string) => `${server.base}/mcp/acme/${name}`;
const list = () => `${server.base}/api/my/servers`;

async function ask(fields: Fields) {
  const form = new Map(Object.entries({ client_id: clientId, ...fields }));
  const at = `${server.base}/api/oauth/token`;
  const { tokens } = await tokenEndpoint(
    { form, method: 'POST', url: at, headers: {} },
    server.ports,
  );
  return { token: tokens.access_token, next: tokens.refresh_token ?? '' };
}

/** A code for these servers of acme. */
async function code(names: readonly string[] = ['sales', 'wiki', 'crm']) {
  const { challenge, verifier } = pkcePair();
  const request = {
    clientId,
    clientName: 'Several',
    isSelfRegistered: true,
    redirectUri,
    state: undefined,
    serverPaths: [],
    listsServers: true,
    scopes: ['mcp:tools:read'] as const,
    codeChallenge: challenge,
  };
  const servers = names.map((name) => {
    return {
      serverId: `srv_${name}`,
      serverPath: `acme/${name}`,
      scopes: ['mcp:tools:read'] as const,
      tools: { type: 'all' } as const,
    };
  });
  const location = await issueBundleCode(request, { userId: 'user_dana', servers }, server.ports);
  return { code: new URL(location).searchParams.get('code') ?? '', verifier };
}

const redeem = async (issued: { code: string; verifier: string }, but: Fields = {}) =>
  ask({
    grant_type: 'authorization_code',
    code: issued.code,
    code_verifier: issued.verifier,
    redirect_uri: redirectUri,
    resource: list(),
    ...but,
  });
const refresh = async (refreshToken: string, name: string, but: Fields = {}) =>
  ask({ grant_type: 'refresh_token', refresh_token: refreshToken, resource: url(name), ...but });

/** Whether the server that a token is for lets it in. */
async function isAdmitted(token: string): Promise<boolean> {
  const { id: tokenId, clientId: of, grantId = '', subject, audience } = await server.claims(token);
  const at = parseServerPath(audience.slice(`${server.base}/mcp/`.length));
  if (!at) throw new Error(audience);
  const grant = { id: grantId, userId: subject };
  const admissions = sqliteAdmissions(server.stores.connection);
  return active(await admissions.byClient({ ...at, clientId: of, tokenId, grant })) !== undefined;
}

test('a bundle: a refresh token used again after the grace period ends the family at every server', async () => {
  const { next: first } = await redeem(await code());
  const sales = await refresh(first, 'sales');
  const wiki = await refresh(sales.next, 'wiki');
  await server.clock.advance(31);

  await expect(refresh(first, 'crm')).rejects.toMatchObject(invalidGrant);
  expect([await isAdmitted(sales.token), await isAdmitted(wiki.token)]).toEqual([false, false]);
  await expect(refresh(wiki.next, 'wiki')).rejects.toMatchObject(invalidGrant);
  const reuses = (await server.audited()).filter((action) => action === 'refresh-token.reuse');
  expect(reuses.length).toBe(3);
});

test('a bundle: concurrent refreshes for different servers get one successor and a token each', async () => {
  const { next } = await redeem(await code());
  const all = await Promise.all(['sales', 'wiki', 'crm'].map((name) => refresh(next, name)));

  expect(new Set(all.map((one) => one.next)).size).toBe(1);
  const audiences = await Promise.all(
    all.map(async ({ token }) => (await server.claims(token)).audience),
  );
  expect(audiences).toEqual([url('sales'), url('wiki'), url('crm')]);
});

test('a bundle: a refused target spends neither code nor refresh token', async () => {
  const issued = await code(['sales', 'wiki']);
  await expect(redeem(issued, { resource: url('crm') })).rejects.toMatchObject(invalidTarget);
  const { next } = await redeem(issued);
  await expect(refresh(next, 'crm')).rejects.toMatchObject(invalidTarget);

  expect(await isAdmitted((await refresh(next, 'wiki')).token)).toBe(true);
});

test('a bundle: a wrong verifier, client or redirect URI is refused', async () => {
  const issued = await code();

  await expect(
    redeem(issued, { redirect_uri: 'http://127.0.0.1:1/callback' }),
  ).rejects.toMatchObject(invalidGrant);
  await expect(redeem(issued, { client_id: server.client.id })).rejects.toMatchObject(invalidGrant);
  await expect(redeem(issued, { code_verifier: 'w'.repeat(43) })).rejects.toMatchObject(
    invalidGrant,
  );
  await expect(redeem(issued)).rejects.toMatchObject(invalidGrant);
});

test('a bundle: another client cannot refresh', async () => {
  const { next } = await redeem(await code());

  await expect(refresh(next, 'sales', { client_id: server.client.id })).rejects.toMatchObject(
    invalidGrant,
  );
});

test('a bundle: a closed organization suspends its servers, and the refresh token stays valid', async () => {
  const { db } = server.stores;
  const { next } = await redeem(await code());
  await updateSettings(db, 'org_acme', { openClientsAllowed: false });
  const refused = refresh(next, 'sales');

  await expect(refused).rejects.toMatchObject({
    code: 'invalid_target',
    message: expect.stringMatching(/^suspended: /),
  });
  await updateSettings(db, 'org_acme', { openClientsAllowed: true });
  expect(await isAdmitted((await refresh(next, 'sales')).token)).toBe(true);
});

test('a bundle: a disabled server is suspended, and the others go on', async () => {
  const { db } = server.stores;
  const { next } = await redeem(await code());
  const disable = async (at: number | null) =>
    db.updateTable('endpoint').set({ disabled_at: at }).where('id', '=', 'srv_wiki').execute();
  await disable(server.clock.now());
  await expect(refresh(next, 'wiki')).rejects.toMatchObject({
    code: 'invalid_target',
    message: expect.stringMatching(/^suspended: /),
  });
  const sales = await refresh(next, 'sales');
  await disable(null);

  expect(await isAdmitted((await refresh(sales.next, 'wiki')).token)).toBe(true);
});

test('a bundle: ends with the last grant', async () => {
  const { db } = server.stores;
  const { next } = await redeem(await code());
  await removeMember(db, 'org_acme', 'user_dana', 'member');

  await expect(refresh(next, 'sales')).rejects.toMatchObject(invalidGrant);
  await expect(
    ask({ grant_type: 'refresh_token', refresh_token: next, resource: list() }),
  ).rejects.toMatchObject(invalidGrant);
});

test('a bundle: ends after 180 days however often it is refreshed', async () => {
  let { next } = await redeem(await code());
  for (let day = 0; day < 175; day += 25) {
    await server.clock.advance(25 * 86_400);
    ({ next } = await refresh(next, 'sales'));
  }
  await server.clock.advance(5 * 86_400 - 60);
  const last = await refresh(next, 'wiki');
  const { expiresAt } = await server.claims(last.token);
  await server.clock.advance(60);

  expect(expiresAt).toBe(server.clock.now());
  await expect(refresh(last.next, 'wiki')).rejects.toMatchObject(invalidGrant);
});

test('a bundle: an unused refresh token expires after 30 days', async () => {
  const { next } = await redeem(await code());
  await server.clock.advance(30 * 86_400);

  await expect(refresh(next, 'sales')).rejects.toMatchObject(invalidGrant);
});
