import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { listScimTokens, noteScimFault } from '#server/db/scim-tokens';
import { insertScimUser } from '#server/db/scim-users';
import { insertKey } from '#server/db/keys';
import { removeMember } from '#server/db/people';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import { newKey } from '#support/made-records';

const home = '/dashboard/acme/sign-in/scim';
const needsOwner = '/dashboard/acme/people/needs-owner';
const organizationId = 'org_acme';
let app: PageApp;
let owner: SignedInBrowser;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId, role: 'owner' }, 2);
  admin = await app.browser('ada', { organizationId, role: 'admin' }, 2);
});
afterAll(() => app[Symbol.asyncDispose]());
beforeEach(async () => {
  for (const table of ['scim_token', 'scim_fault', 'scim_user'] as const) {
    await app.server.stores.db.deleteFrom(table).execute();
  }
});

const post = (path: string, fields: object = {}, { cookie, csrfToken } = owner) =>
  app.post({
    path,
    cookie,
    body: new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString(),
  });
const shown = async (path = home, { cookie } = owner) => app.get(path, cookie);
const tokens = () => listScimTokens(app.server.stores.db, organizationId);
const secretIn = (text: string) => /scim_[0-9A-Za-z]{36}/.exec(text)?.[0];

test('provisioning: a token is shown once, and only its hint afterwards', async () => {
  const made = await post(`${home}/new-token`, { expiry: '90' });
  const secret = secretIn(made.text) ?? '';
  const page = await shown();
  const [token] = await tokens();

  expect(made.status).toBe(200);
  expect(made.text).toContain('/scim/v2/acme');
  expect(page.text).toContain(token?.hint);
  expect(page.text).not.toContain(secret);
  expect(token?.expiresAt).toBe(app.server.clock.now() + 90 * 86_400);
});

test('provisioning: with an active token, another one comes by a rotation alone', async () => {
  await post(`${home}/new-token`, { expiry: '' });
  const second = await post(`${home}/new-token`, { expiry: '' });
  const rotated = await post(`${home}/rotate`, { expiry: '365', overlap: '1' });
  const third = await post(`${home}/rotate`, { expiry: '365', overlap: '1' });

  expect(secretIn(second.text)).toBeUndefined();
  expect(second.text).toContain('rotate it instead');
  expect(secretIn(rotated.text)).toBeDefined();
  expect(third.text).toContain('There are already 2 active tokens');
  const ends = (await tokens()).map(({ expiresAt = 0 }) => expiresAt - app.server.clock.now());
  expect(ends.toSorted((one, other) => one - other)).toEqual([86_400, 365 * 86_400]);
});

test('provisioning: a token needs an owner with a recent sign-in', async () => {
  const asAdmin = await post(`${home}/new-token`, { expiry: '' }, admin);
  await app.server.clock.advance(601);
  const late = await post(`${home}/new-token`, { expiry: '' });
  const page = await shown();
  owner = await app.browser('olga-again', { organizationId, role: 'owner' }, 2);

  expect(asAdmin.status).toBe(403);
  expect(late.status).toBe(403);
  expect(await tokens()).toEqual([]);
  expect(page.text).toContain('Sign in again');
});

test('provisioning: a token is revoked after a question', async () => {
  await post(`${home}/new-token`, { expiry: '' });
  const [token] = await tokens();
  const path = `${home}/tokens/${token?.id}/revoke`;
  const question = await shown(path);
  const { location } = await post(path);

  expect(question.text).toContain('Members stay members');
  expect(location).toBe(`${home}?done=revoked`);
  expect((await tokens())[0]?.revokedAt).toBe(app.server.clock.now());
});

test('provisioning: the page says that no token is active, and whose creator left', async () => {
  const { db } = app.server.stores;
  const warning = 'No token is active';
  await app.browser('toni', { organizationId, role: 'admin' });
  const before = await shown();
  await post(`${home}/new-token`, { expiry: '' });
  const active = await shown();
  await db.updateTable('scim_token').set({ created_by: 'user:toni' }).execute();
  const ofMember = await shown();
  await removeMember(db, organizationId, 'toni', 'admin');
  const left = await shown();
  const [token] = await tokens();
  const found = [await shown(needsOwner, admin), await shown('/dashboard/acme', admin)];
  await db.updateTable('scim_token').set({ revoked_at: 1 }).execute();
  const revoked = await shown();
  const ended = await shown(needsOwner, admin);

  for (const { text } of [before, active, ofMember, left]) expect(text).not.toContain(warning);
  expect(ofMember.text).not.toContain('Creator left');
  expect(left.text).toContain('Creator left');
  expect(revoked.text).toContain(warning);
  expect(revoked.text).not.toContain('Creator left');
  expect(found[0]?.text).toContain(`<strong>${token?.hint}</strong>`);
  expect(found[1]?.text).toContain(`The creator of the SCIM token ${token?.hint} left`);
  expect(ended.text).toContain('Everything has an owner.');
});

test('provisioning: errors and people who wait are shown as text, and errors are cleared', async () => {
  const { db } = app.server.stores;
  await noteScimFault(db, organizationId, {
    id: 'fault_1',
    request: 'POST Users',
    subject: '<b>dana</b>',
    problem: 'userName is missing',
    at: app.server.clock.now(),
  });
  const facts = { externalId: undefined, attributes: {}, active: true, addresses: [] };
  await insertScimUser(
    db,
    { id: 'su_1', organizationId, userName: 'waiting <i>', ...facts },
    { now: 1, provenAddress: undefined, newUserId: 'user_x' },
  );
  const { text } = await shown(home, admin);
  const asAdmin = await post(`${home}/clear-errors`, {}, admin);
  await post(`${home}/clear-errors`);

  expect(text).toContain('&lt;b&gt;dana');
  expect(text).toContain('waiting &lt;i&gt;');
  expect(text).not.toContain('Clear errors');
  expect(asAdmin.status).toBe(403);
  expect((await shown()).text).toContain('No errors.');
});

test('needs an owner: a key of someone who left is handed over to those who may manage keys', async () => {
  const { db } = app.server.stores;
  await app.browser('lena', { organizationId, role: 'admin' });
  await app.browser('mel', { organizationId, role: 'member' });
  await insertKey(db, newKey({ id: 'key_lena', createdBy: 'user:lena', name: '<Nightly>' }));
  const before = await shown(needsOwner, admin);
  await removeMember(db, organizationId, 'lena', 'admin');
  const listed = await shown(needsOwner, admin);
  const overview = await shown('/dashboard/acme', admin);
  const key = await shown('/dashboard/acme/servers/sales/keys/key_lena', admin);
  const refused = await post(`${needsOwner}/key_lena`, { owner: 'mel' }, admin);
  const done = await post(`${needsOwner}/key_lena`, { owner: 'ada' }, admin);
  const again = await post(`${needsOwner}/key_lena`, { owner: 'ada' }, admin);

  expect(before.text).toContain('Everything has an owner.');
  expect(listed.text).toContain('&lt;Nightly&gt;');
  expect(listed.text).toContain('Suspended');
  expect(listed.text).not.toContain('value="mel"');
  expect(key.text).toContain('<span class="badge bad">Suspended</span>');
  expect(overview.text).toContain('1 key, client or agent of lena');
  expect([refused.status, done.location, again.status]).toEqual([
    409,
    `${needsOwner}?done=done`,
    404,
  ]);
  expect((await shown(needsOwner, admin)).text).toContain('Everything has an owner.');
});
