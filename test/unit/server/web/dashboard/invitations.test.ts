import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertGroup } from '#server/db/groups';
import { insertInvitation, listInvitations } from '#server/db/invitations';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const home = '/dashboard/acme/people';
const sales = { id: 'group_sales', organizationId: 'org_acme', name: 'Sales', createdAt: 1 };

let app: PageApp;
let owner: SignedInBrowser;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  admin = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });
  await insertGroup(app.server.stores.db, sales);
});
afterAll(() => app[Symbol.asyncDispose]());

const show = async (path: string, { cookie } = owner) => (await app.get(home + path, cookie)).text;
const send = (path: string, typed: Record<string, string>, { cookie, csrfToken } = owner) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...typed }).toString();
  return app.post({ path: home + path, cookie, body });
};
const stored = async () => {
  const now = app.server.clock.now();
  const all = await listInvitations(app.server.stores.db, 'org_acme', now, 'all');
  return all.toSorted((one, other) => ((one.email ?? '') < (other.email ?? '') ? -1 : 1));
};

test('invite people: faulty lines are named beside the list, which stays as it was typed', async () => {
  const list = 'ann@example.com,boss\n"<b>,';

  const { status, text } = await send('/invite-several', { list, role: 'viewer' });

  expect(status).toBe(422);
  expect(text).toContain('Line 2: a quotation mark is never closed: add the closing &quot;.');
  expect(text).toContain('ann@example.com,boss\n&quot;&lt;b&gt;,</textarea>');
  expect(await stored()).toEqual([]);
});

test('invite people: the list is checked first, then everyone in it gets a link', async () => {
  const list =
    'email,role,groups,team\r\nann@example.com,admin,Sales,1\r\nOLGA@example.com\r\nben@example.com';
  const typed = { list, role: 'viewer', 'group.group_sales': 'group_sales' };

  const checked = await send('/invite-several', typed);
  const before = await stored();
  const done = await send('/invite-several', { ...typed, invite: 'yes' });

  expect(checked.text).toContain('Invite 2 people?');
  expect(checked.text).toContain('1 column is not used: team.');
  expect(checked.text).toMatch(/OLGA@example\.com<\/span> is a member already/);
  expect(checked.text).toContain('name="group.group_sales" value="group_sales"');
  expect(checked.text).toContain(`name="list" value="${list.replaceAll('\r\n', '\n')}"`);
  expect(before).toEqual([]);
  expect(await stored()).toMatchObject([
    { email: 'ann@example.com', role: 'admin', groupIds: ['group_sales'] },
    { email: 'ben@example.com', role: 'viewer', groupIds: ['group_sales'] },
  ]);
  expect(done.text).toContain('2 links, shown only once');
  const links = [...new Set(done.text.match(/https?:[^"\s<]*\/invitation\/[\w-]{32}/g))];
  expect(links).toHaveLength(2);
});

test('invite people: the file with the links cannot be executed by a spreadsheet', async () => {
  const list = '=cmd|calc@example.com';

  const { text } = await send('/invite-several', { list, role: 'viewer', invite: 'yes' });

  const [, encoded = ''] = /href="data:text\/csv;charset=utf-8;base64,([^"]*)"/.exec(text) ?? [];
  const file = Buffer.from(encoded, 'base64').toString();
  expect(file).toMatch(
    /^email,role,link\r\n"'=cmd\|calc@example\.com","viewer","http[^"]*\/invitation\/[\w-]{32}"\r\n$/,
  );
});

test('invite people: the list can be changed after it was checked', async () => {
  const { status, text } = await send('/invite-several', {
    list: 'x@y.org',
    role: 'admin',
    change: 'yes',
  });

  expect(status).toBe(200);
  expect(text).toContain('x@y.org</textarea>');
  expect(text).toMatch(/id="role-admin" value="admin"[^>]* checked/);
});

test('invite people: an admin is not offered the role of an owner', async () => {
  expect(await show('/invite-several', admin)).not.toContain('id="role-owner"');
});

test('invitations: expired ones are listed with the pending ones, and renewed together', async () => {
  const now = app.server.clock.now();
  const made = {
    organizationId: 'org_acme',
    role: 'viewer',
    groupIds: [],
    createdBy: 'operator',
  } as const;
  const old = { id: 'invitation_old', note: 'Old friend', createdAt: now - 9, expiresAt: now - 1 };
  await insertInvitation(app.server.stores.db, { ...made, ...old, tokenHash: 'old' });

  const page = await show('/invitations?state=expired');
  const renewed = await send('/invitations/renew', { all: 'expired' });

  expect(page).toContain('Old friend');
  expect(page).not.toContain('ann@example.com');
  expect(page).toContain('Renew all expired (1)');
  expect(renewed.text).toContain('1 link, shown only once');
  expect((await stored()).find(({ id }) => id === 'invitation_old')?.expiresAt).toBeGreaterThan(
    now,
  );
});

test('invitations: those that are selected are renewed, and without any the page says so', async () => {
  const [one, other] = await stored();
  const selected = { [`invitation.${one?.id}`]: 'yes', [`invitation.${other?.id}`]: 'yes' };

  const none = await send('/invitations/renew', {});
  const two = await send('/invitations/renew', selected);

  expect(none.location).toBe(`${home}/invitations?done=none`);
  expect(two.text).toContain('2 invitations renewed');
});
