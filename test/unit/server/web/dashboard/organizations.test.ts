import { afterAll, beforeAll, expect, test } from 'vitest';

import { findOrganization } from '#server/db/organizations';
import { insertPasskey } from '#server/db/authenticators';
import { findSettings } from '#server/db/settings';
import { hiddenFields } from '#support/granting-server';
import { connectProxy } from '#support/made-records';
import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

async function save(fields: Readonly<Record<string, string>>) {
  const owner = { organizationId: 'org_acme', role: 'owner' } as const;
  const { cookie, csrfToken } = await app.browser('user_olga', owner);
  const filled = { callRetentionDays: '90', ...fields };
  const body = new URLSearchParams({ csrf_token: csrfToken, ...filled }).toString();
  return app.post({ path: '/dashboard/acme/settings', cookie, body });
}

const kept = async () => {
  const { db } = app.server.stores;
  const organization = await findOrganization(db, 'acme');
  return { title: organization?.title, ...(await findSettings(db, 'acme')) };
};

test.each([
  ['no title', { title: ' ' }],
  ['no number of days', { title: 'Acme', callRetentionDays: '' }],
  ['too few days', { title: 'Acme', callRetentionDays: '0' }],
  ['too many days', { title: 'Acme', callRetentionDays: '3651' }],
  ['a part of a day', { title: 'Acme', callRetentionDays: '1.5' }],
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
  const { status } = await save({
    title: 'Acme Ltd',
    'rule.openClientsAllowed': 'on',
    callRetentionDays: '45',
  });
  const rules = {
    secondFactorRequired: false,
    openClientsAllowed: true,
    latchkeyProxyAllowed: false,
    callRetentionDays: 45,
    singleSignOnRequired: false,
    leaverResources: 'suspend',
    invitedScimGroups: false,
  };

  expect([status, await kept()]).toEqual([303, { title: 'Acme Ltd', ...rules }]);
});

test('organization settings: a rule that people depend on is turned off only after a question that counts them', async () => {
  const { stores, clock } = app.server;
  for (const name of ['ann', 'ben']) {
    await app.browser(name, { organizationId: 'org_acme', role: 'member' });
  }
  const now = clock.now();
  await connectProxy(stores.db, { people: ['ann', 'ben'], serverId: 'srv_sales', now });
  const apps = { 'rule.openClientsAllowed': 'on' };
  await save({ title: 'Acme', ...apps, 'rule.latchkeyProxyAllowed': 'on' });
  const before = await kept();

  const asked = await save({ title: 'Acme and Co', ...apps });
  const unchanged = await kept();
  // Each `save` signs in again, and sends the CSRF token of the new session.
  const { csrf_token: _, ...fields } = hiddenFields(asked.text, '/dashboard/acme/settings');
  const confirmed = await save(fields);

  expect([asked.status, unchanged]).toEqual([200, before]);
  expect(asked.text).toContain(
    '2 people lose access through Latchkey’s own proxy, which has 2 connections.',
  );
  expect([confirmed.status, await kept()]).toEqual([
    303,
    { ...before, title: 'Acme and Co', latchkeyProxyAllowed: false },
  ]);
});

test('organization settings: each rule about applications says how many people use them now', async () => {
  const { cookie } = await app.browser('olaf', { organizationId: 'org_acme', role: 'owner' });

  const { text } = await app.get('/dashboard/acme/settings', cookie);

  expect(text).toContain('any program on a member’s computer can call itself Latchkey');
  expect(text).toContain('Now: 2 people with 2 connections.');
  expect(text).toContain('No one uses them now.');
});

test('organization settings: a rule that locks its owner out is refused, with a link to what is missing', async () => {
  const { status, text } = await save({ title: 'Strict', 'rule.secondFactorRequired': 'on' });

  expect(status).toBe(422);
  expect(text).toContain('set one up first');
  expect(text).toContain('<a href="/account">Your account</a>');
});

test('organization settings: an owner without a second factor can require one', async () => {
  const passkey = { id: 'key', userId: 'user_olga', name: 'Laptop', publicKey: 'AA', counter: 0 };
  const times = { createdAt: 1, lastUsedAt: undefined };
  await insertPasskey(app.server.stores.db, { ...passkey, ...times, transports: [] });
  const { status } = await save({ title: 'Strict', 'rule.secondFactorRequired': 'on' });

  expect([status, await kept()]).toEqual([
    303,
    {
      title: 'Strict',
      secondFactorRequired: true,
      openClientsAllowed: false,
      latchkeyProxyAllowed: false,
      callRetentionDays: 90,
      singleSignOnRequired: false,
      leaverResources: 'suspend',
      invitedScimGroups: false,
    },
  ]);
});
