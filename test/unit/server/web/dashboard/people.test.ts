import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertGroup, listGroupMappings, listGroupsOfServer } from '#server/db/groups';
import { listInvitations } from '#server/db/invitations';
import { findMember } from '#server/db/people';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const home = '/dashboard/acme';
const sales = { id: 'group_sales', organizationId: 'org_acme', name: 'Sales & more', createdAt: 1 };

let app: PageApp;
let owner: SignedInBrowser;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  admin = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });
});
afterAll(() => app[Symbol.asyncDispose]());

const show = async (path: string, { cookie } = owner) => (await app.get(home + path, cookie)).text;
const send = (path: string, typed: Record<string, string>, { cookie, csrfToken } = owner) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...typed }).toString();
  return app.post({ path: home + path, cookie, body });
};
const pending = async () =>
  listInvitations(app.server.stores.db, 'org_acme', app.server.clock.now());

test('invitation: without groups the form has none, and a member is what it offers first', async () => {
  const text = await show('/people/invite');

  expect(text).not.toContain('<legend>Groups</legend>');
  expect(text).toMatch(/id="role-member" value="member"[^>]* checked/);
  expect(text).toMatch(/Recipient <span class="optional">[\s\S]*<input id="note"[^>]* autofocus/);
});

test('invitation: only an owner is offered the role of an owner', async () => {
  expect(await show('/people/invite')).toContain('id="role-owner"');
  expect(await show('/people/invite', admin)).not.toContain('id="role-owner"');
});

test('invitation: what was refused comes back with the error, and nobody is invited', async () => {
  await insertGroup(app.server.stores.db, sales);
  const note = `"${'n'.repeat(200)}`;
  const typed = { note, role: 'viewer', 'group.group_sales': 'group_sales' };
  const { status, text } = await send('/people/invite', typed);
  const noRole = await send('/people/invite', {});
  const noGroup = await send('/people/invite', { role: 'viewer', 'group.other': 'other' });

  expect(status).toBe(422);
  expect(text).toContain('The recipient must have at most 200 characters.');
  expect(text).toContain(`value="&quot;${'n'.repeat(200)}"`);
  expect(text).toMatch(/id="role-viewer" value="viewer"[^>]* checked/);
  expect(text).toMatch(/id="group-group-sales" value="group_sales" checked/);
  expect(text).toContain('Sales &amp; more');
  expect(noRole.text).toContain('The role must be owner, admin, member or viewer.');
  expect(noGroup.text).toContain('The list of groups names a group that does not exist.');
  expect(await pending()).toEqual([]);
});

test('invitation: role, groups and note are those that were entered', async () => {
  const typed = { note: ' Vera ', role: 'viewer', 'group.group_sales': 'group_sales' };
  const { status, text } = await send('/people/invite', typed);

  expect([status, text]).toEqual([200, expect.stringContaining('/invitation/')]);
  expect(await pending()).toMatchObject([
    { note: 'Vera', role: 'viewer', groupIds: ['group_sales'] },
  ]);
});

test('person: their role is chosen on their page, and changed by it', async () => {
  await app.browser('vera', { organizationId: 'org_acme', role: 'viewer' });
  const before = await show('/people/vera', admin);
  const { status } = await send('/people/vera/role', { role: 'member' }, admin);
  const member = await findMember(app.server.stores.db, 'org_acme', 'vera');

  expect(before).toContain('<legend>Role</legend>');
  expect(before).toMatch(/id="role-viewer" value="viewer"[^>]* checked/);
  expect(before).not.toContain('id="role-owner"');
  expect([status, member?.role]).toEqual([303, 'member']);
});

test('group: the name of a mapping that was refused comes back', async () => {
  const externalName = '<b>'.repeat(100);
  const { status, text } = await send('/groups/group_sales/map', { externalName });

  expect(status).toBe(422);
  expect(text).toContain('The name must have at most 256 characters.');
  expect(text).toContain(`value="${'&lt;b&gt;'.repeat(100)}"`);
});

test('group: a mapping is made and ended', async () => {
  const mappings = () => listGroupMappings(app.server.stores.db, 'org_acme');
  await send('/groups/group_sales/map', { externalName: ' crm/sales ' });
  const made = await mappings();
  const page = await show('/groups/group_sales');
  await send('/groups/group_sales/unmap', { externalName: 'crm/sales' });

  expect(made).toMatchObject([{ externalName: 'crm/sales' }]);
  expect(page).toMatch(/name="externalName" value="crm\/sales">/);
  expect(await mappings()).toEqual([]);
});

test('access of a server: the chosen groups are checked, and none opens it to all', async () => {
  const groups = () => listGroupsOfServer(app.server.stores.db, 'srv_sales');
  const path = '/servers/sales/access';
  await send(path, { 'group.group_sales': 'group_sales' });
  const kept = await groups();
  const page = await show(path);
  await send(path, {});

  expect(kept).toMatchObject([{ id: 'group_sales' }]);
  expect(page).toMatch(/id="group-group-sales" value="group_sales"[^>]* checked/);
  expect(page).toContain('0 people');
  expect(page).toContain('id="group-help"');
  expect(await groups()).toEqual([]);
});
