import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { passwordHashing } from '#server/accounts/passwords';
import { csrfToken } from '#server/accounts/sessions';
import { findPasswordHash, replacePasswordHash } from '#server/db/authenticators';
import { insertInvitation } from '#server/db/invitations';
import { insertLink } from '#server/db/one-time';
import { findOrganization } from '#server/db/organizations';
import { deleteUser, findUserByEmail, listUsers } from '#server/db/people';
import { hashSecret } from '#server/secrets/secrets';
import { cookieName } from '#server/web/page-request';
import { pageApp, type PageApp } from '#support/page-app';

const linkToken = 'from-a-link';
const password = 'correct horse battery staple';

let app: PageApp;
beforeEach(async () => {
  app = await pageApp();
});
afterEach(() => app[Symbol.asyncDispose]());

/** Makes every insert into `table` fail, as on a full disk; returns a function that makes room again. */
async function full(table: 'audit_event' | 'password'): Promise<() => Promise<void>> {
  const { db } = app.server.stores;
  await sql`create trigger full before insert on ${sql.table(table)}
    begin select raise(abort, 'database or disk is full'); end`.execute(db);
  return async () => void (await sql`drop trigger full`.execute(db));
}

/** Sends a form of a page for somebody who is not signed in. */
async function send(path: string, fields: Readonly<Record<string, string>>): Promise<number> {
  const token = randomBytes(24).toString('base64url');
  const cookie = `${cookieName('latchkey-browser', app.server.base)}=${token}`;
  const body = new URLSearchParams({ ...fields, csrf_token: csrfToken(token) }).toString();
  return (await app.post({ path, cookie, body })).status;
}

const chosen = { email: 'olga@example.com', password, repeated: password };

test.each(['audit_event', 'password'] as const)(
  'the link of the first owner stays valid if no %s can be written',
  async (table) => {
    const { stores, clock } = app.server;
    for (const { user } of await listUsers(stores.db)) await deleteUser(stores.db, user.id);
    await insertLink(stores.db, hashSecret(linkToken), { type: 'set-up' }, clock.now() + 60);
    const setUp = () => send(`/set-up/${linkToken}`, { ...chosen, organization: 'newcomers' });
    const freed = await full(table);

    const failed = await setUp();
    const left = [await listUsers(stores.db), await findOrganization(stores.db, 'newcomers')];
    await freed();

    expect([failed, left]).toEqual([503, [[], undefined]]);
    expect(await setUp()).toBe(303);
    expect(await findUserByEmail(stores.db, chosen.email)).toBeDefined();
  },
);

test.each(['audit_event', 'password'] as const)(
  'a link for a new password stays valid if no %s can be written',
  async (table) => {
    const { stores, clock } = app.server;
    const { userId } = await app.browser('olga');
    await replacePasswordHash(stores.db, userId, 'the old one');
    const { cookie } = await app.browser('olga');
    await insertLink(stores.db, hashSecret(linkToken), { type: 'reset', userId }, clock.now() + 60);
    const reset = () => send(`/reset/${linkToken}`, { password, repeated: password });
    const freed = await full(table);

    const failed = await reset();
    const hash = await findPasswordHash(stores.db, userId);
    const { status } = await app.get('/account', cookie);
    await freed();

    expect([failed, hash, status]).toEqual([503, 'the old one', 200]);
    expect(await reset()).toBe(303);
    expect(await findPasswordHash(stores.db, userId)).not.toBe('the old one');
  },
);

test('a new password that cannot be recorded leaves the old one', async () => {
  const { stores } = app.server;
  const { userId } = await app.browser('olga');
  const old = await passwordHashing({ log2Cost: 8 }).hash(password);
  await replacePasswordHash(stores.db, userId, old);
  const browser = await app.browser('olga');
  const body = new URLSearchParams({
    csrf_token: browser.csrfToken,
    current: password,
    password: 'another horse battery',
    repeated: 'another horse battery',
  }).toString();
  await sql`create trigger full before insert on audit_event when new.action = 'password.set'
    begin select raise(abort, 'database or disk is full'); end`.execute(stores.db);

  const { status } = await app.post({ path: '/account/password', cookie: browser.cookie, body });

  expect(status).toBe(503);
  expect(await findPasswordHash(stores.db, userId)).toBe(old);
  expect((await app.get('/account', browser.cookie)).status).toBe(200);
});

test('an invitation stays open if accepting it cannot be recorded', async () => {
  const { stores, clock } = app.server;
  const id = 'invitation_1';
  const [createdAt, expiresAt] = [clock.now(), clock.now() + 60];
  const offer = { organizationId: 'org_acme', role: 'member', groupIds: [], note: '' } as const;
  const made = { createdBy: 'operator', createdAt, expiresAt };
  await insertInvitation(stores.db, { id, tokenHash: hashSecret(linkToken), ...offer, ...made });
  const join = () => send(`/invitation/${linkToken}/account`, chosen);
  const freed = await full('audit_event');

  const failed = await join();
  const user = await findUserByEmail(stores.db, chosen.email);
  await freed();

  expect([failed, user]).toEqual([503, undefined]);
  expect(await join()).toBe(303);
  expect(await findUserByEmail(stores.db, chosen.email)).toBeDefined();
});
