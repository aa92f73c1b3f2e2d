import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

async function save(fields: Readonly<Record<string, string>>) {
  const owner = { organizationId: 'org_acme', role: 'owner' } as const;
  const { cookie, csrfToken } = await app.browser('user_olga', owner);
  const body = new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString();
  return app.post({ path: '/dashboard/acme/settings', cookie, body });
}

const kept = async () => {
  const { organizations, settings } = app.server.stores;
  const organization = await organizations.byName('acme');
  return { title: organization?.title, ...(await settings.of('acme')) };
};

test.each([
  ['no title', { title: ' ' }],
  ['a rule that the owner could not keep', { title: 'Acme', 'rule.secondFactorRequired': 'on' }],
])('settings with %s are not saved, and nothing of them is', async (_what, fields) => {
  const before = await kept();
  const { status, text } = await save(fields);

  expect([status, text]).toEqual([422, expect.stringContaining('Not saved')]);
  expect(await kept()).toEqual(before);
});

test('the title and the rules are saved together', async () => {
  const { status } = await save({ title: 'Acme Ltd', 'rule.openClientsAllowed': 'on' });
  const rules = { secondFactorRequired: false, openClientsAllowed: true };

  expect([status, await kept()]).toEqual([303, { title: 'Acme Ltd', ...rules }]);
});

test('who asks for a second factor, and proved one only, saves it all the same', async () => {
  const passkey = { id: 'key', userId: 'user_olga', name: 'Laptop', publicKey: 'AA', counter: 0 };
  const times = { createdAt: 1, lastUsedAt: undefined };
  await app.server.stores.passkeys.add({ ...passkey, ...times, transports: [] });
  const { status } = await save({ title: 'Strict', 'rule.secondFactorRequired': 'on' });

  expect([status, await kept()]).toEqual([
    303,
    { title: 'Strict', secondFactorRequired: true, openClientsAllowed: false },
  ]);
});
