import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertClient } from '#server/db/clients';
import { insertGroup, insertGroupMember, removeGroupMember } from '#server/db/groups';
import { setServerAccess } from '#server/db/server-access';
import { changeRole } from '#server/db/people';
import { insertSession } from '#server/db/sessions';
import { updateSettings } from '#server/db/settings';
import { clientResolver } from '#server/oauth/client-documents';
import { askConsent, consentTerms, decideConsent } from '#server/oauth/consent';
import {
  authorizationServer,
  refusal,
  type AuthorizationServer,
} from '#support/authorization-server';

let server: AuthorizationServer;
beforeAll(async () => {
  server = await authorizationServer();
});
afterAll(() => server[Symbol.asyncDispose]());

const disable = (table: 'organization' | 'endpoint', at: number | null) =>
  server.stores.db.updateTable(table).set({ disabled_at: at }).execute();
const asked = (factors: 1 | 2 = 1, clientId = server.client.id) => {
  const { base, clock, stores, redirectUri } = server;
  const fetchDocument = async () => '{}';
  const request = {
    clientId,
    clientName: 'Claude',
    isSelfRegistered: false,
    serverPath: 'acme/sales',
    scopes: ['mcp:tools:read'] as const,
    redirectUri,
    state: undefined,
    codeChallenge: 'x'.repeat(43),
  };
  const ports = {
    ...stores,
    resolveClient: clientResolver({ ...stores, base, clock, fetchDocument }),
  };
  return consentTerms(request, { userId: 'user_dana', factors }, ports);
};

test.each(['organization', 'endpoint'] as const)(
  '48: a disabled resource (%s) is granted to no one, and no code for it is redeemed',
  async (table) => {
    const before = await asked();
    const code = await server.code();
    await disable(table, server.clock.now());
    const after = await asked();
    const redeemed = server.redeem(code);

    expect(before.outcome).toBe('terms');
    expect(after.outcome).toBe('stranger');
    await expect(redeemed).rejects.toMatchObject(refusal('invalid_grant'));
    await disable(table, null);
  },
);

test('48: a person in no group that may use a server loses it immediately, and has it again with the group', async () => {
  const { stores, clock } = server;
  const made = { organizationId: 'org_acme', name: 'sales', createdAt: clock.now() };
  await insertGroup(stores.db, { ...made, id: 'group_sales' });
  const { accessToken, refreshToken } = await server.signIn();
  const code = await server.code();

  await setServerAccess(stores.db, 'srv_sales', { access: 'groups', groupIds: ['group_sales'] });
  const outside = [(await asked()).outcome, await server.admitted(accessToken)];
  const refused = [server.refresh(refreshToken), server.redeem(code)];

  expect(outside).toEqual(['stranger', undefined]);
  for (const refusing of refused) {
    await expect(refusing).rejects.toMatchObject(refusal('invalid_grant'));
  }
  await insertGroupMember(stores.db, 'org_acme', 'group_sales', 'user_dana');
  expect((await asked()).outcome).toBe('terms');
  expect(await server.admitted(accessToken)).toBeDefined();
  await removeGroupMember(stores.db, 'org_acme', 'group_sales', 'user_dana');
  expect(await server.admitted(accessToken)).toBeUndefined();
  await setServerAccess(stores.db, 'srv_sales', { access: 'everyone', groupIds: [] });
});

test('48: a lower role limits what its tokens may do immediately', async () => {
  const { db } = server.stores;
  const raise = { from: 'member', to: 'admin' } as const;
  await changeRole(db, 'org_acme', 'user_dana', raise);
  const scopes = ['mcp:tools:read', 'mcp:server:manage'] as const;
  const { accessToken } = await server.signIn({ scopes });
  const before = await server.admitted(accessToken);

  await changeRole(db, 'org_acme', 'user_dana', { from: 'admin', to: 'member' });

  expect(before).toContain('mcp:server:manage');
  expect(await server.admitted(accessToken)).not.toContain('mcp:server:manage');
  expect(await server.admitted(accessToken)).toContain('mcp:tools:read');
});

test('an organization that requires a second factor refuses people without one', async () => {
  const { db } = server.stores;
  await updateSettings(db, 'org_acme', { secondFactorRequired: true });

  const outcomes = [(await asked(1)).outcome, (await asked(2)).outcome];

  expect(outcomes).toEqual(['second-factor', 'terms']);
  await updateSettings(db, 'org_acme', { secondFactorRequired: false });
});

test('a closed organization accepts only applications that its administrators created', async () => {
  const { db } = server.stores;
  const made = { name: 'Anybody', serverId: undefined, jwks: undefined };
  const redirectUris = [server.redirectUri];
  const id = 'client_anybody';
  const times = { createdAt: server.clock.now(), secretHash: undefined, secretHint: undefined };
  await insertClient(db, { ...made, id, scopes: ['mcp:tools:read'], redirectUris, ...times });
  const before = (await asked(1, id)).outcome;

  await updateSettings(db, 'org_acme', { openClientsAllowed: false });

  expect(before).toBe('terms');
  expect([(await asked(1, id)).outcome, (await asked()).outcome]).toEqual(['closed', 'terms']);
  await updateSettings(db, 'org_acme', { openClientsAllowed: true });
});

/** A web site that people connect, and a session of Dana, which ends after 100 seconds. */
async function siteAndSession(id: string) {
  const { base, clock, stores, ports } = server;
  const redirectUri = `https://${id}.example/cb`;
  const clientId = `client_${id}`;
  const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
  const site = { id: clientId, name: 'Site', serverId: 'srv_sales', createdAt: clock.now() };
  await insertClient(stores.db, {
    ...site,
    ...none,
    scopes: ['mcp:tools:read'],
    redirectUris: [redirectUri],
  });
  const sessionId = `session_${id}`;
  await insertSession(stores.db, {
    id: sessionId,
    tokenHash: `hash of ${id}`,
    userId: 'user_dana',
    address: '',
    userAgent: '',
    createdAt: clock.now(),
    usedAt: clock.now(),
    expiresAt: clock.now() + 100,
    factors: 1,
  });
  const person = { userId: 'user_dana', sessionId, factors: 1, through: undefined } as const;
  const request = {
    clientId,
    clientName: 'Site',
    isSelfRegistered: false,
    serverPath: 'acme/sales',
    scopes: ['mcp:tools:read'] as const,
    redirectUri,
    state: undefined,
    codeChallenge: 'x'.repeat(43),
  };
  const context = {
    ...ports,
    resolveClient: clientResolver({ ...stores, base, clock, fetchDocument: async () => '{}' }),
  };
  return {
    person,
    context,
    /** The id of the question, or why there is none. */
    page: async () => {
      const found = await askConsent(request, person, context);
      return found.outcome === 'ask' ? found.question.requestId : found.outcome;
    },
    codes: () =>
      stores.db
        .selectFrom('authorization_code')
        .select('tool_selection')
        .where('client_id', '=', clientId)
        .execute(),
  };
}

test('48: consent: a session that has just ended gets no code, on a first consent and on a remembered one', async () => {
  const { page, person, context, codes } = await siteAndSession('ending');
  const [first, second] = [await page(), await page()];
  const allowed = await decideConsent({ requestId: first, allow: true }, person, context);
  const remembered = await page();
  await server.clock.advance(100);
  const late = await decideConsent({ requestId: second, allow: true }, person, context);

  expect([allowed.outcome, remembered]).toEqual(['redirect', 'redirect']);
  expect([late.outcome, await page()]).toEqual(['signed-out', 'signed-out']);
  expect(await codes()).toHaveLength(2);
});

test('consent: one that is limited is not remembered, and no earlier one without limits either', async () => {
  const { page, person, context, codes } = await siteAndSession('limited');
  const [first, second] = [await page(), await page()];
  await decideConsent({ requestId: first, allow: true }, person, context);
  const remembered = await page();
  const limited = { requestId: second, allow: true, tools: { type: 'read-only' } } as const;
  const allowed = await decideConsent(limited, person, context);
  const asksAgain = await page();

  expect([remembered, allowed.outcome]).toEqual(['redirect', 'redirect']);
  expect(asksAgain).not.toBe('redirect');
  expect(await codes()).toEqual([{ tool_selection: '{"type":"read-only"}' }]);
});
