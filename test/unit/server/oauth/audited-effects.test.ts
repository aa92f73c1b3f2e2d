/** A change that cannot be recorded in the audit log does not happen, because both are one transaction. */
import { afterEach, beforeEach, expect, test } from 'vitest';

import { revocationEndpoint, withdrawGrant } from '#server/oauth/revocation';
import { authorizationServer, type AuthorizationServer } from '#support/authorization-server';

let server: AuthorizationServer;
beforeEach(async () => {
  server = await authorizationServer();
});
afterEach(() => server[Symbol.asyncDispose]());

/** Does `work` while nothing can be added to the audit log; the outcome, and the rows of the tables after it. */
async function unrecorded(work: () => Promise<unknown>) {
  const { connection, db } = server.stores;
  connection.exec(
    "create temp trigger broken before insert on main.audit_event begin select raise(abort, 'disk full'); end",
  );
  const outcome = await work().then(() => 'done', String);
  connection.exec('drop trigger broken');
  const rows = (table: 'oauth_grant' | 'revoked_token' | 'consent') =>
    db.selectFrom(table).selectAll().execute();
  return {
    outcome,
    revokedGrants: (await rows('oauth_grant')).filter(({ revoked_at: at }) => at !== null),
    revokedTokens: await rows('revoked_token'),
    consents: await rows('consent'),
  };
}

const nothing = {
  outcome: expect.stringContaining('disk full'),
  revokedGrants: [],
  revokedTokens: [],
};

test('audit log: the revocation for a replayed refresh token and its entry are one transaction', async () => {
  const first = await server.signIn();
  await server.refresh(first.refreshToken);
  await server.clock.advance(31);

  expect(await unrecorded(() => server.refresh(first.refreshToken))).toMatchObject(nothing);
  await expect(server.refresh(first.refreshToken)).rejects.toThrow('already used');
  expect(await server.admitted(first.accessToken)).toBeUndefined();
});

test('audit log: the revocation for a reused code and its entry are one transaction', async () => {
  const issued = await server.code();
  const { accessToken } = await server.redeem(issued);

  expect(await unrecorded(() => server.redeem(issued))).toMatchObject(nothing);
  await expect(server.redeem(issued)).rejects.toThrow('already used');
  expect(await server.admitted(accessToken)).toBeUndefined();
});

test.each(['refreshToken', 'accessToken'] as const)(
  'audit log: a client’s revocation of its %s and its entry are one transaction',
  async (kind) => {
    const signedIn = await server.signIn();
    const revoke = () => {
      const { id, secret } = server.client;
      const form = new Map([
        ['client_id', id],
        ['client_secret', secret],
        ['token', signedIn[kind]],
      ]);
      return revocationEndpoint(form, undefined, server.ports);
    };

    expect(await unrecorded(revoke)).toMatchObject(nothing);
    await revoke();
    expect(await server.admitted(signedIn.accessToken)).toBeUndefined();
  },
);

test('audit log: a person’s withdrawal of a grant, with its consents, and its entry are one transaction', async () => {
  const { accessToken } = await server.signIn();
  const { grantId = '' } = await server.claims(accessToken);
  const { db, clock } = { ...server.stores, clock: server.clock };
  const subject = { person_id: 'user_dana', client_id: server.client.id, endpoint_id: 'srv_sales' };
  await db
    .insertInto('consent')
    .values({ ...subject, redirect_host: '127.0.0.1', scopes: '[]', expires_at: clock.now() + 60 })
    .execute();
  const withdraw = () => withdrawGrant(grantId, 'user_dana', { ...server.ports, db });

  expect(await unrecorded(withdraw)).toMatchObject({ ...nothing, consents: [subject] });
  expect(await withdraw()).toBe(true);
});
