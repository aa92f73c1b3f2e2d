import { randomBytes } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { HashingQueue } from '#server/accounts/hashing-queue';
import { csrfToken } from '#server/accounts/sessions';
import { insertGroup } from '#server/db/groups';
import { findEventSentences, sentenceText } from '#server/audit/event-sentences';
import { insertInvitation } from '#server/db/invitations';
import { insertLink } from '#server/db/one-time';
import { deleteUser, listUsers } from '#server/db/people';
import { slugOf } from '#server/model/slug';
import { hashSecret } from '#server/secrets/secrets';
import { cookieName } from '#server/web/page-request';
import { setUpScript } from '#server/web/scripts/set-up';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp } from '#support/page-app';

const password = 'correct horse battery staple';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('an expired link for the first owner says how to get a new one', async () => {
  const { status, text } = await app.get('/set-up/too-old', '');

  expect(status).toBe(410);
  expect(text).toMatch(/restart the server to get a new link/);
  expect(text).not.toContain('Ask the person who gave it to you');
});

test('any other expired link says to ask the person who sent it', async () => {
  const { status, text } = await app.get('/reset/too-old', '');

  expect(status).toBe(410);
  expect(text).toContain('Ask the person who gave it to you');
});

test('an invited person who is signed in with another account returns to the invitation', async () => {
  const { cookie, csrfToken: token } = await app.browser('other');
  const signOut = async (next: string) => {
    const body = new URLSearchParams({ csrf_token: token, next }).toString();
    return (await app.post({ path: '/sign-out', cookie, body })).location;
  };

  expect(await signOut('/invitation/one')).toBe('/invitation/one');
  expect(await signOut('/invitation/one')).toBe('/sign-in?done=signed-out');
});

test('an invited person finds their address entered, and joins the groups of the invitation', async () => {
  const { stores, clock, base } = app.server;
  const createdAt = clock.now();
  await insertGroup(stores.db, {
    id: 'group_sales',
    organizationId: 'org_acme',
    name: 'Sales',
    createdAt,
  });
  const invitation = {
    id: 'invitation_zoe',
    organizationId: 'org_acme',
    role: 'member',
    groupIds: ['group_sales', 'group_gone'],
    email: 'zoe@example.com',
    note: '',
    createdBy: 'operator',
    createdAt,
    expiresAt: createdAt + 60,
  } as const;
  await insertInvitation(stores.db, { ...invitation, tokenHash: hashSecret('of-zoe') });
  const token = randomBytes(24).toString('base64url');
  const cookie = `${cookieName('latchkey-browser', base)}=${token}`;
  const typed = { email: 'zoe@example.com', password, repeated: password };
  const body = new URLSearchParams({ csrf_token: csrfToken(token), ...typed }).toString();

  const page = await app.get('/invitation/of-zoe', '');
  const { status } = await app.post({ path: '/invitation/of-zoe/account', cookie, body });

  expect(page.text).toMatch(/<input id="email"[^>]* value="zoe@example\.com"/);
  expect(status).toBe(303);
  const events = await newestEvents(stores.db, 3);
  expect(events.map(({ action, target }) => [action, target])).toContainEqual([
    'group.join',
    'group:group_sales',
  ]);
  expect(events.filter(({ target }) => target?.includes('gone'))).toEqual([]);
  expect(events.map(({ action }) => action)).not.toContain('invitation.take-other');
});

test('the audit log says for whom an invitation was, if someone joins under another address', async () => {
  const { stores, clock, base } = app.server;
  const by = { createdBy: 'operator', createdAt: clock.now(), expiresAt: clock.now() + 60 };
  const offer = { organizationId: 'org_acme', role: 'member', groupIds: [], note: '' } as const;
  const id = 'invitation_sam';
  const whose = { id, email: 'sam@example.com', tokenHash: hashSecret('of-sam') };
  await insertInvitation(stores.db, { ...offer, ...by, ...whose });
  const token = randomBytes(24).toString('base64url');
  const cookie = `${cookieName('latchkey-browser', base)}=${token}`;
  const typed = { email: 'pat@example.com', password, repeated: password };
  const body = new URLSearchParams({ csrf_token: csrfToken(token), ...typed }).toString();

  const { status } = await app.post({ path: '/invitation/of-sam/account', cookie, body });

  expect(status).toBe(303);
  const events = await newestEvents(stores.db, 4);
  const entry = events.find(({ action }) => action === 'invitation.take-other');
  if (!entry) throw new Error('there is no entry');
  const sentenceOf = await findEventSentences('acme', [entry], stores.db);
  expect(sentenceText(sentenceOf(entry))).toBe(
    'pat@example.com used an invitation that was meant for sam@example.com',
  );
});

test('the sign-in page says that no one can sign in yet, until someone can', async () => {
  await using empty = await pageApp();
  for (const { user } of await listUsers(empty.server.stores.db)) {
    await deleteUser(empty.server.stores.db, user.id);
  }

  const before = await empty.get('/sign-in', '');
  await empty.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const after = await empty.get('/sign-in', '');

  expect(before.text).toContain('No account exists yet.');
  expect(after.text).not.toContain('No account exists yet.');
});

/** An installation without people, and how the browser sends its form for the first owner. */
async function emptyInstallation() {
  const empty = await pageApp();
  const { stores, clock } = empty.server;
  for (const { user } of await listUsers(stores.db)) await deleteUser(stores.db, user.id);
  const linkToken = 'the-first-link';
  await insertLink(stores.db, hashSecret(linkToken), { type: 'set-up' }, clock.now() + 60);
  const token = randomBytes(24).toString('base64url');
  const cookie = `${cookieName('latchkey-browser', empty.server.base)}=${token}`;
  const setUp = (chosen: {
    email: string;
    organization: string;
    name?: string;
    repeated?: string;
  }) => {
    const form = { password, repeated: password, csrf_token: csrfToken(token), ...chosen };
    const body = new URLSearchParams(form).toString();
    return empty.post({ path: `/set-up/${linkToken}`, cookie, body });
  };
  return { ...empty, setUp };
}

test('the first owner lands on the first steps of their organization', async () => {
  await using empty = await emptyInstallation();

  const made = await empty.setUp({ email: 'olga@example.com', organization: 'newcomers' });
  const home = await empty.get('/dashboard/newcomers', made.cookies.join('; '));

  expect([made.status, made.location]).toEqual([303, '/dashboard']);
  expect(home.text).toContain('First steps');
});

test('set-up: the name in URLs is shown before it is used, and can be another one', async () => {
  await using empty = await emptyInstallation();
  const typed = { email: 'olga@example.com', organization: 'Müller & Söhne GmbH' };

  const asked = await empty.setUp(typed);
  const people = await listUsers(empty.server.stores.db);
  const wrong = await empty.setUp({ ...typed, name: 'Müller' });
  const made = await empty.setUp({ ...typed, name: 'mueller' });
  const home = await empty.get('/dashboard/mueller', made.cookies.join('; '));

  expect([asked.status, wrong.status, made.status]).toEqual([422, 422, 303]);
  expect(asked.text).toContain(
    'URLs would contain muller-sohne-gmbh, which can never be changed. Shorten it, or choose Create account again to keep it.',
  );
  expect(asked.text).toMatch(/id="name"[^>]* value="muller-sohne-gmbh"/);
  expect(people).toEqual([]);
  expect(wrong.text).toContain('The name must be lower-case letters, digits and hyphens');
  expect(home.text).toContain('Müller &amp; Söhne GmbH');
});

test('set-up: a script shows the name that the server makes of a title, until another one is typed', () => {
  const name = { value: '', dataset: { slugOf: 'organization' } };
  const typing: (() => void)[] = [];
  const title = { value: '', addEventListener: (_: string, act: () => void) => typing.push(act) };
  const document = { querySelector: () => name, getElementById: () => title };
  runInNewContext(setUpScript, { document });
  const type = (text: string) => {
    title.value = text;
    for (const act of typing) act();
    return name.value;
  };

  for (const text of [
    'Acme',
    'Müller & Söhne GmbH & Co. KG',
    'Straße №1',
    '株式会社',
    'x-'.repeat(99),
  ]) {
    expect(type(text)).toBe(slugOf(text));
  }
  name.value = 'mueller';
  expect(type('Müller AG')).toBe('mueller');
});

test('set-up: a valid password stays in the form beside an error in another field', async () => {
  await using empty = await emptyInstallation();

  const wrongAddress = await empty.setUp({ email: 'olga', organization: 'Newcomers GmbH' });
  const wrongPassword = await empty.setUp({
    email: 'olga@example.com',
    organization: 'Newcomers GmbH',
    repeated: 'another one',
  });

  expect(wrongAddress.status).toBe(422);
  expect(wrongAddress.text.split(`value="${password}"`)).toHaveLength(3);
  expect(wrongAddress.text).toContain('value="Newcomers GmbH"');
  expect(wrongPassword.status).toBe(422);
  expect(wrongPassword.text).not.toContain(password);
});

test('108: the invitations of one organization hash passwords in one turn, however many there are', async () => {
  const { stores, clock, base } = app.server;
  const { userId } = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const token = randomBytes(24).toString('base64url');
  const cookie = `${cookieName('latchkey-browser', base)}=${token}`;
  const run = vi.spyOn(HashingQueue.prototype, 'run');
  for (const n of [1, 2]) {
    const [createdAt, linkToken] = [clock.now(), `invitation-${n}`];
    const tokenHash = hashSecret(linkToken);
    const about = { organizationId: 'org_acme', role: 'member', groupIds: [], note: '' } as const;
    const times = { createdBy: `user:${userId}`, createdAt, expiresAt: createdAt + 60 };
    await insertInvitation(stores.db, { id: `inv_${n}`, tokenHash, ...about, ...times });
    const email = `guest${n}@example.com`;
    const form = { email, password, repeated: password, csrf_token: csrfToken(token) };
    const body = new URLSearchParams(form).toString();
    const joined = await app.post({ path: `/invitation/${linkToken}/account`, cookie, body });
    expect(joined.status).toBe(303);
  }

  expect(run.mock.calls.map(([whose]) => whose)).toEqual([
    { known: 'invited to acme' },
    { known: 'invited to acme' },
  ]);
  run.mockRestore();
});
