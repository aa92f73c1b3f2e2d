import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { listProviders } from '#server/db/identity-providers';
import { linkMember } from '#server/db/member-identities';
import { insertDomain, setDomainProof } from '#server/db/organization-domains';
import { insertCheck, noteCheckFailed } from '#server/db/provider-checks';
import { lyingProvider, type Lie } from '#support/lying-provider';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const home = '/dashboard/acme/sign-in';
let app: PageApp;
let lying: Awaited<ReturnType<typeof lyingProvider>>;
let owner: SignedInBrowser;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  lying = await lyingProvider();
  const at = { organizationId: 'org_acme' };
  owner = await app.browser('olga', { ...at, role: 'owner' }, 2);
  admin = await app.browser('ada', { ...at, role: 'admin' }, 2);
  const { db } = app.server.stores;
  const domain = { organizationId: 'org_acme', domain: 'example.com', verificationToken: 't' };
  await insertDomain(db, { ...domain, createdAt: 1 }, 9);
  await setDomainProof(db, 'org_acme', 'example.com', {
    by: 'operator',
    at: app.server.clock.now(),
  });
});
afterAll(async () => {
  await lying[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await app.server.stores.db.deleteFrom('identity_provider').execute();
});

const post = (path: string, fields: object = {}, { cookie, csrfToken } = owner) =>
  app.post({
    path,
    cookie,
    body: new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString(),
  });
/** Adds a provider on the page; the path of its page. */
const added = async () => {
  const fields = {
    name: 'Acme ID',
    issuer: lying.issuer,
    clientId: 'latchkey',
    clientSecret: lying.clientSecret,
  };
  const { location = '' } = await post(`${home}/new-provider`, fields);
  return location;
};
/** Tests the provider and signs in there; returns the answer to the callback, and the page with the result. */
const tested = async (page: string, lie: Lie, browser = owner) => {
  const { text } = await post(`${page}/test`, {}, browser);
  const href = /content="0; url=([^"]+)"/.exec(text)?.[1] ?? '';
  const callback = lying.authorize(new URL(href.replaceAll('&amp;', '&')), lie);
  const back = await app.get(callback.pathname + callback.search, browser.cookie);
  return { back, shown: await app.get(back.location ?? '', browser.cookie) };
};
const mine: Lie = { claims: { sub: 'olga there', email: 'olga@example.com' } };
const record = async () => (await listProviders(app.server.stores.db, 'org_acme'))[0];

test('sign-in settings: an owner adds a provider, and its page shows the redirect URL and never the secret', async () => {
  const page = await added();
  const { text } = await app.get(page, owner.cookie);
  const list = await app.get(home, owner.cookie);

  expect(text).toContain(`${(await record())?.id}/callback`);
  expect(text + list.text).not.toContain(lying.clientSecret);
  expect(list.text).toContain('Acme ID');
  expect(list.text).toContain('Confirmed by the operator');
});

test('sign-in settings: an error of the form stands beside its field', async () => {
  const entered = { name: 'Acme ID', issuer: 'http://10.0.0.1', clientSecret: 's' };
  const empty = await post(`${home}/new-provider`, { ...entered, name: '' });
  const inside = await post(`${home}/new-provider`, { ...entered, clientId: 'latchkey' });

  expect([empty.status, inside.status]).toEqual([422, 422]);
  expect(empty.text).toContain('The name is empty');
  expect(inside.text).toContain('The issuer is not an https URL');
  expect(inside.text).not.toContain('value="s"');
});

test('149: sign-in settings: a form asks for a recent sign-in before anything is typed, and leads back', async () => {
  const page = await added();
  const late = await app.browser('late', { organizationId: 'org_acme', role: 'owner' }, 2);
  await app.server.clock.advance(600);
  const form = await app.get(`${page}/edit`, late.cookie);
  const sent = await post(`${page}/edit`, { name: 'Mine', clientId: 'latchkey' }, late);
  const disabled = await post(`${page}/disable`, {}, late);
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' }, 2);
  const back = encodeURIComponent(`${page}/edit`);

  expect([form.status, sent.status, disabled.status]).toEqual([403, 403, 303]);
  expect(form.text).toContain(`/sign-in?again=1&amp;next=${back}`);
  expect((await record())?.name).toBe('Acme ID');
});

test('sign-in settings: pages say where to announce logouts, and since when people cannot be checked', async () => {
  const page = await added();
  const { db } = app.server.stores;
  const providerId = (await record())?.id ?? '';
  const before = await app.get(page, owner.cookie);
  const place = { type: 'organization', organizationId: 'org_acme', providerId } as const;
  const [member, subject] = [{ organizationId: 'org_acme', userId: 'olga' }, 'olga there'];
  await linkMember(db, { providerId, subject }, member, 1);
  const check = { place, subject, sealedToken: 'sealed', version: 0 };
  await insertCheck(db, check, { now: 1, nextAt: 1 });
  const during = await app.get(page, owner.cookie);
  const now = app.server.clock.now() - 7200;
  await noteCheckFailed(db, check, { failure: 'unreachable', now, nextAt: now });
  const failing = await app.get(page, owner.cookie);
  const list = await app.get(home, owner.cookie);
  await post(`${page}/edit`, { name: 'Acme ID', clientId: 'latchkey', checkAgain: 'never' });
  const off = await app.get(page, owner.cookie);

  expect(before.text).toContain(`/sign-in/provider/${providerId}/backchannel-logout`);
  expect(before.text).toContain('No one can be checked again');
  expect(during.text).toContain('every 60 minutes while they have a session, and every 24 hours');
  expect(failing.text).toContain('the provider does not answer');
  expect(list.text).toContain('Failing since');
  expect(off.text).toContain('People are not checked again');
  expect(off.text).not.toContain('the provider does not answer');
});

test('149: sign-in settings: an admin sees them and changes nothing', async () => {
  const page = await added();
  const forms = [`${home}/new-provider`, `${page}/test`, `${page}/edit`, `${page}/remove`];
  const statuses = [];
  for (const path of forms) statuses.push((await post(path, {}, admin)).status);
  const { status, text } = await app.get(page, admin.cookie);

  expect(statuses).toEqual([403, 403, 403, 403]);
  expect(status).toBe(200);
  expect(text).not.toContain('Test sign-in');
});

test('141: provider test: only the answer for the owner’s own account counts, and nobody is signed in', async () => {
  const page = await added();
  const other = await tested(page, { claims: { sub: 'ada there', email: 'ada@example.com' } });
  const stranger = await tested(page, { claims: { sub: 'x', email: 'x@elsewhere.example' } });
  const unproved = (await record())?.tested;
  const { back, shown } = await tested(page, mine);

  expect(other.shown.text).toContain('It opens the organization for ada@example.com');
  expect(stranger.shown.text).toContain('The domain of the address is not proved');
  expect(unproved).toBeUndefined();
  expect([back.status, back.cookies]).toEqual([303, []]);
  expect(shown.text).toContain('Single sign-on works');
  expect((await record())?.tested?.by).toBe('olga');
});

test('150: provider test: its response is valid once, in the browser that began it, and is no sign-in', async () => {
  const page = await added();
  const { text } = await post(`${page}/test`);
  const href = /content="0; url=([^"]+)"/.exec(text)?.[1] ?? '';
  const callback = lying.authorize(new URL(href.replaceAll('&amp;', '&')), mine);
  const result = `${page}/result${callback.search}`;
  const second = await app.browser('otto', { organizationId: 'org_acme', role: 'owner' }, 2);
  const elsewhere = await app.get(result, second.cookie);
  const first = await app.get(result, owner.cookie);
  const again = await app.get(result, owner.cookie);

  expect(elsewhere.text).toContain('The test was not completed');
  expect(first.text).toContain('Single sign-on works');
  expect(again.text).toContain('The test was not completed');
});

test('sign-in settings: a provider is changed, disabled, enabled and removed, and a domain added and removed', async () => {
  const page = await added();
  const edited = await post(`${page}/edit`, { name: 'New name', clientId: 'latchkey' });
  const disabled = await post(`${page}/disable`);
  const enabled = await post(`${page}/enable`);
  const kept = await record();
  const domain = await post(`${home}/domains`, { domain: 'more.example' });
  const listed = await app.get(home, owner.cookie);
  const unproved = await post(`${home}/domains/more.example/prove`);
  const removedDomain = await post(`${home}/domains/more.example/remove`);
  const removed = await post(`${page}/remove`);

  expect(
    [edited, disabled, enabled, domain, removedDomain, removed].map(({ status }) => status),
  ).toEqual(Array(6).fill(303));
  expect(kept).toMatchObject({ name: 'New name', clientId: 'latchkey', disabledAt: undefined });
  expect(listed.text).toContain('latchkey-server domain confirm acme more.example');
  expect(unproved.text).toContain('has no TXT record');
  expect(await record()).toBeUndefined();
});
