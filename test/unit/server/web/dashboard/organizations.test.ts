import { afterAll, beforeAll, expect, test } from 'vitest';

import { findOrganization } from '#server/db/organizations';
import { insertPasskey } from '#server/db/authenticators';
import { findSettings } from '#server/db/settings';
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
  const { db } = app.server.stores;
  const organization = await findOrganization(db, 'acme');
  return { title: organization?.title, ...(await findSettings(db, 'acme')) };
};

test.each([
  ['no title', { title: ' ' }],
  ['a rule that the owner could not keep', { title: 'Acme', 'rule.secondFactorRequired': 'on' }],
])('organization settings: with %s nothing is saved', async (_what, fields) => {
  const before = await kept();
  const { status, text } = await save(fields);

  expect([status, text]).toEqual([422, expect.stringContaining('Not saved')]);
  expect(await kept()).toEqual(before);
});

test('organization settings: what was refused comes back as it was entered', async () => {
  const title = 'A < B';
  const { text } = await save({ title, 'rule.secondFactorRequired': 'on' });

  expect(text).toContain('value="A &lt; B"');
  expect(text).toMatch(
    /<p class="error" id="rule-error">You have no second factor and would lock yourself out/,
  );
  expect(text).toMatch(/id="rule-secondFactorRequired" [^>]*checked/);
  expect(text).not.toMatch(/id="rule-openClientsAllowed" [^>]*checked/);
  expect((await save({})).text).toContain('The title is empty.');
});

test('organization settings: the title and the rules are saved together', async () => {
  const { status } = await save({ title: 'Acme Ltd', 'rule.openClientsAllowed': 'on' });
  const rules = { secondFactorRequired: false, openClientsAllowed: true };

  expect([status, await kept()]).toEqual([303, { title: 'Acme Ltd', ...rules }]);
});

test('organization settings: an owner without a second factor can require one', async () => {
  const passkey = { id: 'key', userId: 'user_olga', name: 'Laptop', publicKey: 'AA', counter: 0 };
  const times = { createdAt: 1, lastUsedAt: undefined };
  await insertPasskey(app.server.stores.db, { ...passkey, ...times, transports: [] });
  const { status } = await save({ title: 'Strict', 'rule.secondFactorRequired': 'on' });

  expect([status, await kept()]).toEqual([
    303,
    { title: 'Strict', secondFactorRequired: true, openClientsAllowed: false },
  ]);
});
