import { afterEach, beforeEach, expect, test } from 'vitest';

import { updateProvider } from '#server/db/identity-providers';
import { insertDomain, setDomainProof } from '#server/db/organization-domains';
import { insertServer } from '#server/db/servers';
import { introspectionEndpoint, userinfoEndpoint } from '#server/oauth/introspection';
import { authorizationServer, type AuthorizationServer } from '#support/authorization-server';
import { insertSomeProvider } from '#support/some-provider';

let server: AuthorizationServer;
beforeEach(async () => {
  server = await authorizationServer();
});
afterEach(() => server[Symbol.asyncDispose]());

const introspect = (token: string) => {
  const proof = { client_id: server.client.id, client_secret: server.client.secret };
  const ports = { ...server.ports, isAdmitted: async () => true };
  return introspectionEndpoint(new Map(Object.entries({ ...proof, token })), undefined, ports);
};

test('a refresh token is active with the scopes that it would be exchanged for now', async () => {
  await server.stores.db.updateTable('membership').set({ role: 'admin' }).execute();
  const { refreshToken } = await server.signIn({ scopes: ['mcp:tools:read', 'mcp:server:manage'] });
  await server.stores.db.updateTable('membership').set({ role: 'viewer' }).execute();

  expect(await introspect(refreshToken)).toMatchObject({ active: true, scope: 'mcp:tools:read' });
});

test('a refresh token is inactive once its person has left the organization', async () => {
  const { refreshToken } = await server.signIn();
  await server.stores.db.deleteFrom('membership').execute();

  expect(await introspect(refreshToken)).toEqual({ active: false });
});

const userinfo = async (accessToken: string) =>
  userinfoEndpoint(`Bearer ${accessToken}`, { ...server.ports, isAdmitted: async () => true });

/** Acme's provider vouches for people to the client of the tests, and Acme has the domain of Dana. */
async function company(but: Parameters<typeof insertSomeProvider>[1] = {}): Promise<void> {
  const { db } = server.stores;
  const assertionClients = [server.client.id];
  const vouching = { assertionsAllowed: true, assertionClients, nativeClientId: 'native' };
  await insertSomeProvider(db, { ...vouching, ...but });
  const domain = { organizationId: 'org_acme', domain: 'example.com', verificationToken: 't' };
  await insertDomain(db, { ...domain, createdAt: 1 }, 5);
  await setDomainProof(db, 'org_acme', 'example.com', { by: 'operator', at: 1 });
}

const named = { issuer: 'https://id.example', client_id: 'native' };

test('userinfo names the provider that vouches for a member to this client, and where', async () => {
  await company();
  const { accessToken } = await server.signIn();

  expect(await userinfo(accessToken)).toEqual({
    sub: 'user_dana',
    email: 'dana@example.com',
    identity_provider: { ...named, servers: [`${server.base}/mcp/acme`] },
  });
});

test('userinfo names the servers of a provider that vouches for some: those that the person may use, the one of the token first', async () => {
  const { db } = server.stores;
  const upstream = { kind: 'demo' } as const;
  for (const name of ['closed', 'other', 'wiki']) {
    const at = { id: `srv_${name}`, organizationId: 'org_acme', name, upstream };
    await insertServer(db, { ...at, targetId: `target_${name}`, createdAt: 1 });
  }
  await db.updateTable('endpoint').set({ access: 'groups' }).where('name', '=', 'closed').execute();
  await company({ assertionServers: ['srv_closed', 'srv_wiki', 'srv_sales'] });
  const { accessToken } = await server.signIn();

  const answer = await userinfo(accessToken);

  const servers = ['sales', 'wiki'].map((name) => `${server.base}/mcp/acme/${name}`);
  expect(answer?.identity_provider).toEqual({ ...named, servers });
});

test.each<[string, Parameters<typeof insertSomeProvider>[1]]>([
  ['does not vouch', { assertionsAllowed: false }],
  ['vouches to other clients', { assertionClients: ['client_other'] }],
  ['vouches for another server', { assertionServers: ['srv_other'] }],
  ['knows no client of the proxy', { nativeClientId: undefined }],
])('userinfo names no provider that %s', async (_, but) => {
  await company(but);
  const { accessToken } = await server.signIn();

  expect(await userinfo(accessToken)).toEqual({ sub: 'user_dana', email: 'dana@example.com' });
});

test('userinfo names no provider that is disabled, of a domain that is not proved, or to a web application', async () => {
  const { db } = server.stores;
  await company();
  const { accessToken } = await server.signIn();
  const isNamed = async () => (await userinfo(accessToken))?.identity_provider !== undefined;
  await updateProvider(db, 'org_acme', 'idp_acme', { disabledAt: 5 });
  const disabled = await isNamed();
  await updateProvider(db, 'org_acme', 'idp_acme', { disabledAt: undefined });
  const enabled = await isNamed();
  await db.updateTable('organization_domain').set({ proved_by: null, proved_at: null }).execute();
  const stranger = await isNamed();
  const link = { provider_id: 'idp_acme', subject: 'dana there', organization_id: 'org_acme' };
  const used = { person_id: 'user_dana', created_at: 1, used_at: 1 };
  await db
    .insertInto('member_identity')
    .values({ ...link, ...used })
    .execute();
  const linked = await isNamed();
  await db.updateTable('oauth_grant').set({ redirect_host: 'app.example' }).execute();

  expect({ disabled, enabled, stranger, linked }).toEqual({
    disabled: false,
    enabled: true,
    stranger: false,
    linked: true,
  });
  expect(await userinfo(accessToken)).toEqual({ sub: 'user_dana' });
});
