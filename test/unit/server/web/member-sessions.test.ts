import { afterAll, beforeAll, expect, test } from 'vitest';

import { personActor } from '#server/web/dashboard/guard';
import { perform, type Operation } from '#server/admin/operation';
import { operations } from '#server/admin/operations';
import { listGrantsOfPerson } from '#server/db/grants';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { updateSettings } from '#server/db/settings';
import { masterKey } from '#server/secrets/master-key';
import { loopbackSetup } from '#support/upstream-setup';
import { loopbackProviders } from '#support/provider-setup';
import { insertSomeProvider } from '#support/some-provider';
import { loopbackMail } from '#support/mail-setup';
import { loopbackWebhooks } from '#support/webhook-setup';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const otherId = 'org_other';
let app: PageApp;
/** A session through the provider of Acme, of a person who owns Acme and another organization. */
let member: SignedInBrowser;
let whole: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  const { db } = app.server.stores;
  await insertOrganization(db, { id: otherId, name: 'other', createdAt: 1 });
  const through = { organizationId: 'org_acme', providerId: 'idp_acme' };
  await insertSomeProvider(db);
  const owner = { organizationId: 'org_acme', role: 'owner' } as const;
  member = await app.browser('olga', owner, 2, through);
  const olga = { id: 'olga', email: 'olga@example.com', createdAt: 1 };
  await insertUser(db, olga, { organizationId: otherId, role: 'owner' });
  whole = await app.browser('olga', owner, 2);
});
afterAll(() => app[Symbol.asyncDispose]());

/** Routes that belong to the account and not to one organization. */
const isOfAccount = (route: string) =>
  /^\w+ \/(?:account|tokens|nodes|new-organization|invitation\/:linkToken\/join)/.test(route);
const filled = (route: string) => route.split(' ').at(-1)?.replaceAll(/:\w+/g, 'x') ?? '';

test('140: session through a provider: opens its organization, and no other page tells of another', async () => {
  const home = await app.get('/dashboard', member.cookie);
  const here = await app.get('/dashboard/acme', member.cookie);
  const there = await app.get('/dashboard/other', member.cookie);
  const list = await app.get('/organizations', member.cookie);

  expect([home.status, home.location]).toEqual([303, '/dashboard/acme']);
  expect([here.status, there.status, list.status]).toEqual([200, 404, 200]);
  expect(here.text + there.text.replaceAll('/dashboard/other', '') + list.text).not.toMatch(
    /\/dashboard\/other|>other</,
  );
  expect((await app.get('/dashboard/other', whole.cookie)).status).toBe(200);
});

test('140: session through a provider: every page and form of the account asks for another sign-in', async () => {
  const reading = app.reading.filter(isOfAccount);
  const changing = app.changing.filter(isOfAccount);
  const failed: string[] = [];
  for (const route of reading) {
    const { status, location = '' } = await app.get(filled(route), member.cookie);
    if (status !== 303 || !location.startsWith('/sign-in')) failed.push(`${route} ${status}`);
  }
  const body = `csrf_token=${member.csrfToken}`;
  for (const route of changing) {
    const { status, location = '' } = await app.post({
      path: filled(route),
      cookie: member.cookie,
      body,
    });
    // Scripts that add a passkey get an error instead of a redirect.
    const isRefused = status === 403 || (status === 303 && location.startsWith('/sign-in'));
    if (!isRefused) failed.push(`${route} ${status}`);
  }

  expect(reading.length).toBeGreaterThan(4);
  expect(changing.length).toBeGreaterThan(10);
  expect(failed).toEqual([]);
});

test('140: session through a provider: no personal operation, and none in another organization', async () => {
  const { clock, stores } = app.server;
  const { db } = stores;
  const visit = { ip: '127.0.0.1', id: 'r', headers: {} };
  const user = { id: 'olga', email: 'olga@example.com', createdAt: 1 };
  const now = clock.now();
  const session = {
    id: member.sessionId,
    userId: 'olga',
    createdAt: now,
    usedAt: now,
    expiresAt: now + 100,
    address: '',
    userAgent: '',
    factors: 2 as const,
    through: { organizationId: 'org_acme', providerId: 'idp_acme', amr: [] },
  };
  // Only these members of a request are read.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const request = visit as unknown as Parameters<typeof personActor>[1];
  const actor = personActor({ user, session, sessionToken: '', csrfToken: '' }, request);
  const ports = {
    db,
    clock,
    refusals: { note: async () => undefined, noteLater: () => undefined },
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock),
    contentKey: masterKey(new Uint8Array(32)),
  };
  const refusal = async (operation: Operation, input: object) =>
    perform(operation, { ...input }, actor, ports).then(
      () => 'done',
      (error: { code?: string }) => error.code,
    );
  const personal = operations.filter(({ within }) => within === 'person');
  const inputs: Record<string, object> = {
    'organization.list': {},
    'organization.create': { name: 'new' },
    'token.list': {},
    'token.create': { name: 'N' },
    'token.revoke': { tokenId: 'token_x' },
  };
  const codes: Record<string, unknown> = {};
  for (const operation of personal) {
    const input = inputs[operation.name];
    if (input) codes[operation.name] = await refusal(operation, input);
  }
  const read = operations.find(({ name }) => name === 'organization.read');

  expect(codes).toEqual(Object.fromEntries(Object.keys(inputs).map((name) => [name, 'forbidden'])));
  expect(read && (await refusal(read, { organization: 'other' }))).toBe('not_found');
  expect(read && (await refusal(read, { organization: 'acme' }))).toBe('done');
  // Lee belongs to both organizations, which Olga owns, but her session opens only one of them.
  const lee = { id: 'lee', email: 'lee@example.com', createdAt: 1 };
  await insertUser(db, lee, { organizationId: 'org_acme', role: 'member' });
  await insertUser(db, lee, { organizationId: otherId, role: 'member' });
  const reset = { organization: 'acme', userId: 'lee' };
  const resetting = operations.find(({ name }) => name === 'person.reset-second-factor');
  expect(resetting && (await refusal(resetting, reset))).toBe('forbidden');
});

test('140: session through a provider: lists and withdraws what the person allows applications there, and nothing else', async () => {
  const { db } = app.server.stores;
  const grantOf = async (userId: string) => {
    await app.server.redeem(await app.server.code());
    const [made] = await listGrantsOfPerson(db, 'user_dana', app.server.clock.now());
    const grants = db.updateTable('oauth_grant').where('id', '=', made?.id ?? '');
    await grants.set({ person_id: userId }).execute();
    return made?.id ?? '';
  };
  const own = await grantOf('olga');
  await app.browser('lee_there', { organizationId: 'org_acme', role: 'member' });
  const theirs = await grantOf('lee_there');
  const path = '/dashboard/acme/applications';
  const withdraw = (id: string) =>
    app.post({
      path: `${path}/${id}/withdraw`,
      cookie: member.cookie,
      body: `csrf_token=${member.csrfToken}`,
    });
  const list = await app.get(path, member.cookie);
  const elsewhere = await app.get('/dashboard/other/applications', member.cookie);
  const foreign = await withdraw(theirs);
  const { status, location } = await withdraw(own);
  const after = await app.get(location ?? '', member.cookie);
  const left = async (userId: string) =>
    (await listGrantsOfPerson(db, userId, app.server.clock.now())).length;

  expect(list.text).toContain(`${path}/${own}/withdraw`);
  expect(list.text).not.toContain(theirs);
  expect([elsewhere.status, foreign.status, status]).toEqual([404, 404, 303]);
  expect(after.text).toContain('Consent withdrawn');
  expect([await left('olga'), await left('lee_there')]).toEqual([0, 1]);
});

test('141: required single sign-on: a password opens nothing, and an owner with two factors everything', async () => {
  const { db } = app.server.stores;
  await updateSettings(db, 'org_acme', { singleSignOnRequired: true });
  const eve = await app.browser('eve', { organizationId: 'org_acme', role: 'admin' }, 2);
  const ownerOnce = await app.browser('ann', { organizationId: 'org_acme', role: 'owner' }, 1);
  const statusOf = async ({ cookie }: SignedInBrowser) =>
    (await app.get('/dashboard/acme', cookie)).status;

  expect([await statusOf(member), await statusOf(whole)]).toEqual([200, 200]);
  expect([await statusOf(eve), await statusOf(ownerOnce)]).toEqual([403, 403]);
  expect((await app.get('/dashboard/acme', eve.cookie)).text).toContain(
    'requires that its members sign in through its identity provider',
  );
  await updateSettings(db, 'org_acme', { singleSignOnRequired: false });
  expect(await statusOf(eve)).toBe(200);
});
