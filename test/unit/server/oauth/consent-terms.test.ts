import { afterAll, beforeAll, expect, test } from 'vitest';

import { consentTerms } from '#server/oauth/consent-terms';
import { findClient } from '#server/oauth/find-client';
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

const disable = (table: 'organization' | 'mcp_server', at: number | null) =>
  server.stores.db.updateTable(table).set({ disabled_at: at }).execute();
const asked = () => {
  const { base, clock, client, stores, redirectUri } = server;
  const fetchDocument = async () => '{}';
  const request = {
    clientId: client.id,
    clientName: 'Claude',
    serverPath: 'acme/sales',
    scopes: ['mcp:tools:read'] as const,
    redirectUri,
    state: undefined,
    codeChallenge: 'x'.repeat(43),
  };
  const ports = { ...stores, findClient: findClient({ ...stores, base, clock, fetchDocument }) };
  return consentTerms(request, 'user_dana', ports);
};

test.each(['organization', 'mcp_server'] as const)(
  '48: what is disabled (%s) is granted to nobody, and no code for it is redeemed',
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
