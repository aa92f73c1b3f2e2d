import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertGroup } from '#server/db/groups';
import { replacePersonKey, setPersonKeyRule } from '#server/db/person-keys';
import { setServerAccess } from '#server/db/server-access';
import { findServer, updateServer } from '#server/db/servers';
import { pageApp, type PageApp } from '#support/page-app';

const path = '/dashboard/acme/servers/sales';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('disabled server: its page says so, and where people who may can enable it', async () => {
  const olga = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const vic = await app.browser('vic', { organizationId: 'org_acme', role: 'viewer' });
  const before = await app.get(path, olga.cookie);
  const { stores, clock } = app.server;
  await updateServer(stores.db, 'srv_sales', { disabledAt: clock.now() });

  const owner = await app.get(path, olga.cookie);
  const viewer = await app.get(path, vic.cookie);
  const settings = await app.get(`${path}/settings`, olga.cookie);
  const question = await app.get(`${path}/enable`, olga.cookie);

  expect(before.text).not.toContain('Calls to it are refused');
  expect(owner.text).toContain(
    `Calls to it are refused. Enable it under <a href="${path}/settings">`,
  );
  expect(viewer.text).toContain('Calls to it are refused. Ask an owner or an admin to enable it.');
  expect(settings.text).toContain(`<a class="button" href="${path}/enable" data-question>`);
  expect(question.text).toContain('<button class="primary">Enable server</button>');
});

test('server: pages show its status to everyone, and the reason to those who manage it', async () => {
  const ada = await app.browser('ada', { organizationId: 'org_acme', role: 'admin' });
  const mia = await app.browser('mia');
  await updateServer(app.server.stores.db, 'srv_sales', { disabledAt: null });
  app.upstreams.health = {
    status: 'sign-in-required',
    reason: '10.0.0.5 requires authentication (HTTP 401).',
    checkedAt: undefined,
    protocol: undefined,
  };

  const admin = await app.get(path, ada.cookie);
  const member = await app.get(path, mia.cookie);
  const lists = await Promise.all(
    [ada, mia].map(({ cookie }) => app.get('/dashboard/acme/servers', cookie)),
  );

  for (const { text } of [admin, member, ...lists]) {
    expect(text).toContain('<span class="badge care">Sign-in required</span>');
  }
  expect(admin.text).toContain('10.0.0.5 requires authentication (HTTP 401).');
  expect(admin.text).toContain(`href="${path}/upstream">Check upstream authentication</a>`);
  for (const { text } of [member, ...lists]) expect(text).not.toContain('10.0.0.5');
});

test('server: its page is renewed when its status changes', async () => {
  const ada = await app.browser('ann', { organizationId: 'org_acme', role: 'admin' });
  const { text } = await app.get(path, ada.cookie);

  expect(text).toContain('data-live="/dashboard/acme/live"');
  expect(text).toMatch(/data-renew hx-get="\/dashboard\/acme\/servers\/sales"[^]*Sign-in required/);
});

test('server: its page says to people outside its groups that they cannot use it, and what they can do', async () => {
  const { db } = app.server.stores;
  const admin = await app.browser('abe', { organizationId: 'org_acme', role: 'admin' });
  const member = await app.browser('max');
  const shown = async () =>
    Promise.all([admin, member].map(async ({ cookie }) => (await app.get(path, cookie)).text));
  const group = { id: 'group_ops', organizationId: 'org_acme', name: 'Ops', createdAt: 1 };
  await insertGroup(db, group);
  const open = await shown();
  const rule = { access: 'groups', groupIds: [group.id] } as const;
  await setServerAccess(db, 'srv_sales', rule);
  const closed = await shown();
  await setServerAccess(db, 'srv_sales', { ...rule, isRequestable: true });
  const [, asking] = await shown();

  const words = 'You cannot use this server: it is restricted to groups that you are not in.';
  const connects = (text = '') => [text.includes(words), text.includes('Connect an assistant')];
  expect(open.map(connects)).toEqual([
    [false, true],
    [false, true],
  ]);
  expect(closed.map(connects)).toEqual([
    [true, true],
    [true, false],
  ]);
  expect(closed[0]).toContain(`href="${path}/access">View access</a>`);
  expect(closed[1]).toContain(`${words} Ask an administrator.`);
  expect(asking).toContain(`href="${path}/ask">Ask for access</a>`);
});

const notice =
  /You cannot use [^:<]+: it is restricted to groups that you are not in\.[^]*?<\/div>/;

test('closed server: its pages about use say so to a member, and how to ask, and have no tabs', async () => {
  const { db } = app.server.stores;
  const member = await app.browser('mel');
  const viewer = await app.browser('val', { organizationId: 'org_acme', role: 'viewer' });
  const admin = await app.browser('art', { organizationId: 'org_acme', role: 'admin' });
  const rule = { access: 'groups', groupIds: [], isRequestable: true } as const;
  const at = (page: string, { cookie }: { cookie: string }) => app.get(`${path}${page}`, cookie);
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });
  const open = await at('/tools', member);
  await setServerAccess(db, 'srv_sales', rule);
  const uses = ['/clients', '/keys', '/try'];
  const closed = await Promise.all([...uses, '/tools'].map((page) => at(page, member)));
  const seen = await Promise.all(['/clients', '/keys'].map((page) => at(page, viewer)));
  const managed = await at('/clients', admin);

  for (const { status, text } of [...closed, ...seen]) {
    expect(status).toBe(200);
    expect(notice.exec(text)?.[0]).toContain(`href="${path}/ask">Ask for access</a>`);
    for (const use of uses) expect(text).not.toContain(`href="${path}${use}"`);
    expect(text).toContain(`href="${path}/tools"`);
  }
  expect(closed.at(-1)?.text).toContain('You cannot use any tool of this server: ');
  expect(managed.text).not.toMatch(notice);
  for (const { text } of [open, managed]) {
    for (const use of uses) expect(text).toContain(`href="${path}${use}"`);
  }
});

test('closed server: a member who asked already can withdraw the request', async () => {
  const { db } = app.server.stores;
  const member = await app.browser('may');
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: [], isRequestable: true });
  const reason = new URLSearchParams({ csrf_token: member.csrfToken, reason: 'Reports' });
  const ask = { path: `${path}/ask`, cookie: member.cookie, body: reason.toString() };
  const asked = await app.post(ask);
  const { text } = await app.get(`${path}/try`, member.cookie);

  expect(asked.location).toBe('/dashboard/acme/my-servers?done=asked');
  expect(text).toContain('You asked for access. The answer appears under Your servers.');
  expect(text).toContain(`href="${path}/ask/withdraw">Withdraw request</a>`);
});

test('closed server: its status is “No access” for members, and its own for people who manage it', async () => {
  const { db } = app.server.stores;
  const member = await app.browser('mim');
  const admin = await app.browser('ali', { organizationId: 'org_acme', role: 'admin' });
  const badges = async ({ cookie }: { cookie: string }) =>
    Promise.all(
      ['/dashboard/acme/servers', path].map(async (page) => {
        const { text } = await app.get(page, cookie);
        return /<span class="badge [a-z]+">(No access|Sign-in required)</.exec(text)?.[1];
      }),
    );
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });
  const open = await badges(member);
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: [] });

  expect(open).toEqual(['Sign-in required', 'Sign-in required']);
  expect(await badges(member)).toEqual(['No access', 'No access']);
  expect(await badges(admin)).toEqual(['Sign-in required', 'Sign-in required']);
});

test('your servers: a server that requires a key of each person asks for the key, until it is entered', async () => {
  const { db } = app.server.stores;
  const { id: targetId = '' } = (await findServer(db, 'acme', 'sales'))?.target ?? {};
  const upstream = { kind: 'http', url: 'https://mcp.example/mcp' } as const;
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });
  await updateServer(db, 'srv_sales', { upstream });
  const rule = { header: 'x-key', template: '{key}', label: 'Access key' };
  await setPersonKeyRule(db, targetId, rule);
  const { cookie, userId } = await app.browser('kim');
  const before = await app.get('/dashboard/acme/my-servers', cookie);
  const of = { targetId, userId, organizationId: 'org_acme', place: 'https://mcp.example' };
  const key = { sealedKey: 'sealed', hint: '', provedAt: undefined, setAt: 1, replaces: undefined };
  await replacePersonKey(db, { ...of, ...key });
  const after = await app.get('/dashboard/acme/my-servers', cookie);
  await setPersonKeyRule(db, targetId, undefined);
  await updateServer(db, 'srv_sales', { upstream: { kind: 'demo' } });

  expect(before.text).toMatch(
    /Needs your key<\/span> <a href="\/dashboard\/acme\/servers\/sales\/account" [^>]*>Enter your key</,
  );
  expect(before.text).not.toContain('your account</a>');
  expect(after.text).not.toMatch(/Needs your|Enter your key/);
});

test('servers: the list shows the upstreams to those who manage servers only', async () => {
  const admin = await app.browser('amy', { organizationId: 'org_acme', role: 'admin' });
  const member = await app.browser('moe');
  const [managed, seen] = await Promise.all(
    [admin, member].map(async ({ cookie }) => app.get('/dashboard/acme/servers', cookie)),
  );

  expect(managed?.text).toMatch(/Upstream\s*<\/th>[^]*Demo library/);
  expect(seen?.text).toMatch(/servers\/sales"><bdi>sales/);
  expect(seen?.text).not.toMatch(/Upstream|Demo library/);
});
