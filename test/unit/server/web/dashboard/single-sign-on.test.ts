import { AuthorizationResponseError } from 'openid-client';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import type { UpstreamIdentity } from '#server/accounts/openid-provider';
import { linkIdentity } from '#server/db/identities';
import { insertOrganization } from '#server/db/organizations';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const home = '/dashboard/acme/single-sign-on';
const identity: UpstreamIdentity = {
  issuer: 'https://id.example',
  subject: 'ada <there>',
  email: 'ada@example.com',
  emailProof: 'verified',
  groups: ['sales', '\u202eevil'],
  issuedAt: 1_800_000_000,
  authentication: { amr: [] },
};

let app: PageApp;
let ada: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  const { stores, clock } = app.server;
  const createdAt = clock.now();
  await insertOrganization(stores.db, { id: 'org_globex', name: 'globex', createdAt });
  ada = await app.browser('ada', { organizationId: 'org_acme', role: 'admin' });
});
beforeEach(() => {
  app.provider.check = { outcome: 'ready' };
  app.provider.identity = identity;
});
afterAll(() => app[Symbol.asyncDispose]());

const press = ({ cookie, csrfToken }: SignedInBrowser) =>
  app.post({ path: `${home}/test`, cookie, body: `csrf_token=${csrfToken}` });
/** Begins a test; returns the query of the provider’s redirect. */
const begun = async (browser: SignedInBrowser) => {
  const { text } = await press(browser);
  const state = /id\.example\/authorize\?state=([\w.-]+)/.exec(text)?.[1] ?? '';
  return `?code=x&state=${state}`;
};
const finished = async (browser: SignedInBrowser) => {
  const query = await begun(browser);
  const { location = '' } = await app.get(`/sign-in/provider/callback${query}`, browser.cookie);
  return { ...(await app.get(location, browser.cookie)), location };
};

test('single sign-on: the page shows the provider and how to configure it, and is for administrators', async () => {
  const mia = await app.browser('mia');

  const { text } = await app.get(home, ada.cookie);
  const member = await app.get(home, mia.cookie);
  const forbidden = await press(mia);
  const overview = await app.get('/dashboard/acme', mia.cookie);

  expect(text).toContain('<span class="badge good">Configured</span>');
  expect(text).toContain('https://id.example');
  expect(text).toContain('<code>https://latchkey.example/sign-in/provider/callback</code>');
  for (const name of ['issuer', 'client-id', 'client-secret-file']) {
    expect(text).toContain(`<code>--oidc-${name}</code>`);
  }
  expect(text).toContain('LATCHKEY_OIDC_CLIENT_SECRET_FILE</code>');
  expect(text).toContain('<a href="/dashboard/acme/sign-in" aria-current="true">Sign-in</a>');
  expect([member.status, forbidden.status]).toEqual([403, 403]);
  expect(overview.text).not.toContain('/dashboard/acme/sign-in');
});

test('sign-in test: the page shows what the provider answered, and the session stays as it is', async () => {
  const { location, status, text, cookies } = await finished(ada);

  expect(location).toMatch(/^\/dashboard\/acme\/single-sign-on\/result\?code=x&state=test\./);
  expect([status, cookies]).toEqual([200, []]);
  expect(text).toContain('The provider works, but no account is linked');
  expect(text).toContain('ada &lt;there&gt;');
  expect(text).toContain('ada@example.com');
  expect(text).toContain('sales, \ufffdevil');
  expect((await app.get(home, ada.cookie)).status).toBe(200);
  const [newest] = await newestEvents(app.server.stores.db, 1);
  expect(newest).toMatchObject({ action: 'identity.test', outcome: 'done', actor: 'user:ada' });
});

test('sign-in test: it names the account that the identity is linked to', async () => {
  const { issuer, subject } = identity;
  await linkIdentity(app.server.stores.db, { issuer, subject, userId: 'ada' });

  const { text } = await finished(ada);

  expect(text).toContain('Single sign-on works');
  expect(text).toContain('opens the account ada@example.com');
});

test.each<[string, Partial<UpstreamIdentity>, answer: string, remedy: string]>([
  ['an unverified address', { emailProof: 'unverified' }, 'No', 'with another value than true'],
  ['no email_verified', { emailProof: 'unsaid' }, 'Not sent', 'set --oidc-trust-email instead'],
  ['no address', { email: undefined }, 'Yes', 'sent the claim email neither'],
])(
  'sign-in test: with %s, no one can link the account, and the page says what to do',
  async (_, lack, answer, remedy) => {
    app.provider.identity = { ...identity, subject: 'nobody here', ...lack };

    const { text } = await finished(ada);

    expect(text).toContain('This provider account cannot be linked, or used to join');
    expect(text).toContain(remedy);
    expect(text).toMatch(new RegExp(`E-mail verified</dt>\\s*<dd><span dir="auto">${answer}<`));
  },
);

test('sign-in test: a linked account works without a verified address', async () => {
  const linked = { ...identity, subject: 'linked', email: undefined } as const;
  await linkIdentity(app.server.stores.db, { ...linked, userId: 'ada' });
  app.provider.identity = { ...linked, emailProof: 'unsaid' };

  const { text } = await finished(ada);

  expect(text).toContain('Single sign-on works');
});

test('sign-in test: a state is valid once, in its browser and in its organization', async () => {
  const { db } = app.server.stores;
  const bob = await app.browser('bob', { organizationId: 'org_acme', role: 'admin' });
  const eve = await app.browser('eve', { organizationId: 'org_globex', role: 'owner' });
  const query = await begun(ada);
  const tests = async () =>
    (await newestEvents(db, 99)).filter(({ action }) => action === 'identity.test').length;
  const before = await tests();

  const other = await app.get(`${home}/result${query}`, bob.cookie);
  const elsewhere = await app.get(
    `/dashboard/globex/single-sign-on/result${await begun(ada)}`,
    eve.cookie,
  );
  const first = await app.get(`${home}/result${query}`, ada.cookie);
  const again = await app.get(`${home}/result${query}`, ada.cookie);
  const signIn = query.replace('state=test.', 'state=sign-in.');
  const signedIn = await app.get(`/sign-in/provider/callback${signIn}`, ada.cookie);

  for (const { text } of [other, elsewhere, again]) {
    expect(text).toContain('The test was not completed');
    expect(text).not.toContain('ada &lt;there&gt;');
  }
  expect(first.text).toContain('ada &lt;there&gt;');
  expect([signedIn.status, signedIn.cookies]).toEqual([403, []]);
  expect((await tests()) - before).toBe(1);
});

test('sign-in test: a state of a sign-in is not one of a test, and no organization is made up', async () => {
  const query = await begun(ada);
  const [, challenge = ''] = query.split('.');
  const tail = Buffer.from('acme/../../evil').toString('base64url');

  const linked = await app.get(
    `${home}/result${query.replace('state=test.', 'state=link.')}`,
    ada.cookie,
  );
  const made = await app.get(
    `/sign-in/provider/callback?code=x&state=test.${challenge}.${tail}`,
    ada.cookie,
  );

  expect(linked.text).toContain('The test was not completed');
  expect([made.status, made.location]).toEqual([403, undefined]);
});

test.each([
  ['configuration', 'the configuration of the provider'],
  ['keys', 'the signing keys of the provider'],
] as const)(
  'sign-in test: where the %s cannot be read, it says so and what to do',
  async (what, words) => {
    const fault = { code: 'unreachable', detail: 'ECONNREFUSED' } as const;
    app.provider.check = { outcome: 'failed', what, fault };

    const { status, text } = await press(ada);

    expect(status).toBe(200);
    expect(text).toContain(`could not read ${words} https://id.example (ECONNREFUSED)`);
    expect(text).toContain('Check that this server can reach the provider over the network');
  },
);

test('sign-in test: a refusal of the provider is quoted, escaped, with a remedy', async () => {
  const cause = new URLSearchParams({
    error: 'access_denied',
    error_description: '<b>not assigned</b>',
  });
  app.provider.identity = new AuthorizationResponseError('refused', { cause });

  const { text } = await finished(ada);

  expect(text).toContain('https://id.example refused the sign-in');
  expect(text).toContain('access_denied: &lt;b&gt;not assigned&lt;/b&gt;');
  expect(text).toContain('Check at the provider that you may use this application');
});
