import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageApp, type PageApp } from '#support/page-app';
import { deleteUser, listUsers } from '#server/db/people';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('a link for the first owner that is over says how there comes a new one', async () => {
  const { status, text } = await app.get('/set-up/too-old', '');

  expect(status).toBe(410);
  expect(text).toMatch(/prints a new link whenever it starts/);
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

  expect(before.text).toContain('There is no account yet.');
  expect(after.text).not.toContain('There is no account yet.');
});

test('the first owner is led to their organization, and to nothing that is not on the page', async () => {
  const owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });

  const { text } = await app.get('/account?done=set-up', owner.cookie);

  const [notice = ''] = /<p class="notice"[^>]*>[^<]*/.exec(text) ?? [];
  expect(notice).toContain('Your organization is listed below');
  expect(notice).not.toContain('passkey');
  expect(text).toContain('href="/dashboard/acme"');
});
