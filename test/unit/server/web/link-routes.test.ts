import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { csrfToken } from '#server/accounts/sessions';
import { insertLink } from '#server/db/one-time';
import { deleteUser, listUsers } from '#server/db/people';
import { hashSecret } from '#server/oauth/secrets';
import { cookieName } from '#server/web/page-request';
import { pageApp, type PageApp } from '#support/page-app';

const password = 'correct horse battery staple';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('a link for the first owner that is over says how there comes a new one', async () => {
  const { status, text } = await app.get('/set-up/too-old', '');

  expect(status).toBe(410);
  expect(text).toMatch(/restart the server to get a new link/);
  expect(text).not.toContain('Ask the person who gave it to you');
});

test('any other link is asked of whoever gave it', async () => {
  const { status, text } = await app.get('/reset/too-old', '');

  expect(status).toBe(410);
  expect(text).toContain('Ask the person who gave it to you');
});

test('the sign-in page says that nobody can sign in yet, for as long as that is so', async () => {
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

test('the first owner lands on the first steps of their organization', async () => {
  await using empty = await pageApp();
  const { stores, clock } = empty.server;
  for (const { user } of await listUsers(stores.db)) await deleteUser(stores.db, user.id);
  const linkToken = 'the-first-link';
  await insertLink(stores.db, hashSecret(linkToken), { type: 'set-up' }, clock.now() + 60);
  const token = randomBytes(24).toString('base64url');
  const browser = `${cookieName('latchkey-browser', empty.server.base)}=${token}`;
  const chosen = {
    email: 'olga@example.com',
    password,
    repeated: password,
    organization: 'newcomers',
    csrf_token: csrfToken(token),
  };
  const body = new URLSearchParams(chosen).toString();

  const made = await empty.post({ path: `/set-up/${linkToken}`, cookie: browser, body });
  const cookie = made.cookies.join('; ');
  const home = await empty.get('/dashboard/newcomers', cookie);

  expect([made.status, made.location]).toEqual([303, '/dashboard']);
  expect(home.text).toContain('First steps');
});
