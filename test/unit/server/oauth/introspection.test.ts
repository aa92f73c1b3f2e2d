import { afterEach, beforeEach, expect, test } from 'vitest';

import { introspectionEndpoint } from '#server/oauth/introspection';
import { authorizationServer, type AuthorizationServer } from '#support/authorization-server';

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
