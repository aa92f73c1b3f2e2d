import { expect, onTestFinished, test } from 'vitest';

import { insertAuditEvent } from '#server/db/audit';
import { insertGroup } from '#server/db/groups';
import { insertInvitation } from '#server/db/invitations';
import { insertKey } from '#server/db/keys';
import { changeRole } from '#server/db/people';
import { recordCalls } from '#server/db/rollups';
import { setServerAccess } from '#server/db/server-access';
import { recordCalls as recordActivity } from '#support/made-calls';
import { newKey } from '#support/made-records';
import { pageApp } from '#support/page-app';

async function opened() {
  const app = await pageApp();
  onTestFinished(() => app[Symbol.asyncDispose]());
  return app;
}

test('home of a member: their servers with status and a way to connect, and nothing to administer', async () => {
  const app = await opened();
  app.upstreams.health = { ...app.upstreams.health, status: 'connected' };
  const { cookie } = await app.browser('user_mia', { organizationId: 'org_acme', role: 'member' });

  const { status, text } = await app.get('/dashboard/acme', cookie);

  expect(status).toBe(200);
  expect(text).toContain('<h1 dir="auto">Your servers</h1>');
  expect(text).toMatch(/Available<\/span>/);
  expect(text).toContain('You do not use it yet.');
  expect(text).toContain(
    'href="/dashboard/acme/servers/sales#connect-heading" aria-label="Connect to sales"',
  );
  for (const hidden of [
    '/people',
    '/groups',
    '/agents',
    '/usage',
    '/audit',
    '/settings',
    'API key',
  ])
    expect(text).not.toContain(hidden);
});

test('home of a member: a server that only another group may use is not shown', async () => {
  const app = await opened();
  const { db } = app.server.stores;
  const group = { id: 'group_1', organizationId: 'org_acme', name: 'sales', createdAt: 1 };
  await insertGroup(db, group);
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: [group.id] });
  const { cookie } = await app.browser('user_mia', { organizationId: 'org_acme', role: 'member' });

  const { text } = await app.get('/dashboard/acme', cookie);

  expect(text).toContain('You cannot use any server yet.');
  expect(text).not.toContain('/servers/sales"');
});

test('people: a member can neither see the page nor list them', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_mia', { organizationId: 'org_acme', role: 'member' });

  const page = await app.get('/dashboard/acme/people', cookie);

  expect(page.status).toBe(403);
});

test('first steps: they tick themselves, and go away once all are done', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  const { db } = app.server.stores;
  await db.deleteFrom('membership').where('person_id', '!=', 'user_ada').execute();
  const before = await app.get('/dashboard/acme', cookie);
  await app.browser('user_mia', { organizationId: 'org_acme', role: 'member' });

  const after = await app.get('/dashboard/acme', cookie);

  expect(before.text).toMatch(/<li class="done"><span>Create a server<\/span>/);
  expect(before.text).toMatch(/<li class="open"><a href="\/dashboard\/acme\/people">Invite people/);
  expect(after.text).toMatch(/<li class="done"><span>Invite people<\/span>/);
  expect(after.text).toContain('Connect an assistant');
});

test('first steps: an assistant is connected once there is a server', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  const before = await app.get('/dashboard/acme', cookie);
  await app.server.stores.db.deleteFrom('endpoint').execute();

  const after = await app.get('/dashboard/acme', cookie);

  expect(before.text).toMatch(/<a href="[^"]+">Connect an assistant/);
  expect(after.text).toContain('<li class="open">Connect an assistant');
});

test('needs attention: things are listed with their action, the rest of a kind is folded, and nothing is said once', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  const { stores, clock } = app.server;
  const before = await app.get('/dashboard/acme', cookie);
  const expiresAt = clock.now() + 86_400;
  const createdAt = clock.now();
  const insertKeys = (...names: readonly string[]) =>
    Promise.all(
      names.map((name) =>
        insertKey(
          stores.db,
          newKey({ id: `key_${name}`, hash: name, name: `<b>${name}`, createdAt, expiresAt }),
        ),
      ),
    );
  await insertKeys('a', 'b', 'c', 'd');
  const withOne = await app.get('/dashboard/acme', cookie);
  await insertKeys('e');

  const { text } = await app.get('/dashboard/acme', cookie);

  expect(before.text).toContain('Nothing needs attention.');
  expect(text).not.toContain('Nothing needs attention.');
  expect(text).toContain('The API key &lt;b&gt;a of sales expires');
  expect(text).toContain('href="/dashboard/acme/servers/sales/keys/key_a/rotate"');
  expect(withOne.text).toContain('1 other: Keys and client secrets that expire');
  expect(text).toContain('2 others: Keys and client secrets that expire');
  for (const gone of ['API keys to rotate', 'No failed calls', 'No denied requests'])
    expect(before.text).not.toContain(gone);
});

test('needs attention: an invitation that expired leads to the page that renews it', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  const { stores, clock } = app.server;
  await insertInvitation(stores.db, {
    id: 'invitation_1',
    organizationId: 'org_acme',
    role: 'member',
    groupIds: [],
    email: 'lee@example.com',
    note: '',
    createdBy: 'operator',
    createdAt: clock.now() - 8 * 86_400,
    expiresAt: clock.now() - 86_400,
    tokenHash: 'hash',
  });

  const { text } = await app.get('/dashboard/acme', cookie);
  const [, href = ''] = /<a class="button" href="([^"]+)">Renew</.exec(text) ?? [];
  const page = await app.get(href, cookie);

  expect(text).toContain('The invitation for lee@example.com expired before anyone accepted it');
  expect(page.text).toMatch(/lee@example\.com[^]*Expired[^]*Renew selected/);
});

test.each([
  {
    method: 'tools/call',
    link: 'View calls',
    says: '3 of 4 calls to sales failed in the last hour',
    shows: /tried to use[^]*search[^]*Server error/,
  },
  {
    method: 'tools/list',
    link: 'View usage',
    says: '3 of 4 requests to sales failed in the last hour',
    shows: /4 calls of MCP methods, 75% errors[^]*tools\/list/,
  },
])(
  'needs attention: when $method fails, $link leads to what failed',
  async ({ method, link, says, shows }) => {
    const app = await opened();
    const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
    const { stores, clock } = app.server;
    const now = clock.now();
    const server = { serverId: 'srv_sales', targetId: 'target_sales' };
    const counts = { calls: 4, toolErrors: 0, refused: 0, upstreamErrors: 3 };
    await recordCalls(stores.db, [
      { ...server, ...counts, kind: 'server', subject: 'srv_sales', at: now, bucket: 1 },
      { ...server, ...counts, kind: 'method', subject: method, at: now, bucket: 1 },
    ]);
    // Records only calls of tools, and no lists, as the server does.
    const isRecorded = method === 'tools/call';
    const endpoint = { id: 'srv_sales', organization: 'acme', name: 'sales' };
    const target = { id: 'target_sales', name: 'sales' };
    await recordActivity(
      stores.db,
      (now - 60) * 1000,
      isRecorded ? [{ endpoint, target, method, end: 'upstream_error' }] : [],
    );

    const { text } = await app.get('/dashboard/acme', cookie);
    const [, href = ''] = new RegExp(`<a class="button" href="([^"]+)">${link}<`).exec(text) ?? [];
    const page = await app.get(href.replaceAll('&amp;', '&'), cookie);

    expect(text).toContain(says);
    expect(page.text).toMatch(shows);
  },
);

async function deniedRecently(
  app: Awaited<ReturnType<typeof opened>>,
  cookie: string,
  refusals: readonly (readonly [actor: string, action: string, target: string])[],
) {
  const { stores, clock } = app.server;
  const event = { organization: 'acme', address: undefined, requestId: undefined };
  for (const [actor, action, target] of refusals) {
    const at = clock.now();
    await insertAuditEvent(stores.db, { ...event, at, actor, action, target, outcome: 'refused' });
  }
  const { text } = await app.get('/dashboard/acme', cookie);
  const [section = ''] =
    /<section[^>]*aria-labelledby="refusals-heading">[^]*?<\/section>/.exec(text) ?? [];
  const rows = [...section.matchAll(/<tr id="row-refusal-[^]*?<\/tr>/g)].map(([row]) =>
    row.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' '),
  );
  return { section, said: (words: RegExp) => rows.filter((row) => words.test(row)).length };
}

test('denied recently: each entry says of its reason what is recorded', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  await app.browser('user_vic', { organizationId: 'org_acme', role: 'viewer' });

  const { section, said } = await deniedRecently(app, cookie, [
    ['user:user_vic', 'people.manage', '/dashboard/:organization/people/invite'],
    ['user:user_vic', 'server.create', 'server:acme/mine'],
    ['operator', 'server.read', 'server:acme/slaes'],
    ['anonymous', 'sign-in', 'password'],
    ['user:user_ada', 'forged-form', '/dashboard/:organization/new-server'],
  ]);

  expect(said(/user_vic@example\.com tried to manage people .*Not allowed/)).toBe(1);
  expect(said(/user_vic@example\.com tried to create .* Denied/)).toBe(1);
  expect(said(/slaes.* Not possible/)).toBe(1);
  expect(said(/tried to sign in Sign-in failed/)).toBe(1);
  expect(said(/a form without a valid CSRF token Denied/)).toBe(1);
  expect(section).toContain('href="/dashboard/acme/audit?outcome=refused"');
  expect(section).toContain('the audit log does not record the reason: the role or credential');
});

test('denied recently: a forged form of a member is denied, whatever their role opens', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  await app.post({ path: '/dashboard/acme/new-server', cookie, body: 'name=mine' });

  const { said } = await deniedRecently(app, cookie, []);

  expect(said(/a form without a valid CSRF token Denied/)).toBe(1);
});

test('denied recently: a later change of the role does not change what an entry says', async () => {
  const app = await opened();
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  await app.browser('user_vic', { organizationId: 'org_acme', role: 'viewer' });
  const { db } = app.server.stores;

  const before = await deniedRecently(app, cookie, [
    ['user:user_vic', 'people.manage', '/dashboard/:organization/people/invite'],
    ['user:user_vic', 'server.create', 'server:acme/mine'],
  ]);
  await changeRole(db, 'org_acme', 'user_vic', { from: 'viewer', to: 'admin' });
  const after = await deniedRecently(app, cookie, []);

  for (const { said } of [before, after]) {
    expect([said(/ Not allowed /), said(/ Denied /), said(/ Not possible /)]).toEqual([1, 1, 0]);
  }
});
