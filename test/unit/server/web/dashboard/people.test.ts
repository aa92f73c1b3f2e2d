import { afterAll, beforeAll, expect, test } from 'vitest';

import { changeToolRules } from '#server/db/tool-rules';
import {
  insertGroup,
  insertGroupMember,
  listGroupMappings,
  listGroupMembers,
  removeGroupMember,
} from '#server/db/groups';
import { insertAgent } from '#server/db/agents';
import { insertKey } from '#server/db/keys';
import { listInvitations } from '#server/db/invitations';
import { findMember } from '#server/db/people';
import { findServerAccess, setServerAccess } from '#server/db/server-access';
import { newKey } from '#support/made-records';
import { newestEvents } from '#support/newest-events';
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
  expect(text).toMatch(
    /E-mail address <span class="optional">[\s\S]*<input id="email"[^>]* autofocus/,
  );
  expect(text).not.toContain('Send the link by e-mail');
});

test('invitation: only an owner is offered the role of an owner', async () => {
  expect(await show('/people/invite')).toContain('id="role-owner"');
  expect(await show('/people/invite', admin)).not.toContain('id="role-owner"');
});

test('invitation: refused input is shown again with the error, and no one is invited', async () => {
  await insertGroup(app.server.stores.db, sales);
  const note = `"${'n'.repeat(200)}`;
  const typed = { note, role: 'viewer', 'group.group_sales': 'group_sales' };
  const { status, text } = await send('/people/invite', typed);
  const noRole = await send('/people/invite', {});
  const member = await send('/people/invite', { role: 'viewer', email: 'ADAM@example.com' });
  const noGroup = await send('/people/invite', { role: 'viewer', 'group.other': 'other' });

  expect(status).toBe(422);
  expect(text).toContain('The recipient must have at most 200 characters.');
  expect(text).toContain(`value="&quot;${'n'.repeat(200)}"`);
  expect(text).toMatch(/id="role-viewer" value="viewer"[^>]* checked/);
  expect(text).toMatch(/id="group-group-sales" value="group_sales" checked/);
  expect(text).toContain('Sales &amp; more');
  expect(noRole.text).toContain('The role must be owner, admin, member or viewer.');
  expect(member.status).toBe(422);
  expect(member.text).toContain('ADAM@example.com is a member already: change their role');
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

test('person: their groups are links, and their page says that no device has access', async () => {
  await insertGroupMember(app.server.stores.db, 'org_acme', 'group_sales', 'adam');
  const [inOne, inNone] = [await show('/people/adam'), await show('/people/olga')];
  await removeGroupMember(app.server.stores.db, 'org_acme', 'group_sales', 'adam');

  expect(inOne).toContain(`href="${home}/groups/group_sales" dir="auto">Sales &amp; more</a>`);
  expect(inNone).toContain(`href="${home}/groups">Add them under Groups</a>`);
  expect(inNone).toContain('No device has access for this person.');
});

test('person: after offboarding, the list says who took over how much, and what is left to do', async () => {
  await app.browser('lea', { organizationId: 'org_acme', role: 'admin' });
  const { db } = app.server.stores;
  const createdBy = 'user:lea';
  const agent = { id: 'agent_office', organizationId: 'org_acme', name: 'office', createdAt: 1 };
  await insertAgent(db, { ...agent, createdBy });
  await insertKey(db, newKey({ id: 'key_lea', createdBy }));
  const keyOwner = { type: 'agent', agentId: agent.id } as const;
  await insertKey(db, newKey({ id: 'key_office', hash: 'office', owner: keyOwner, createdBy }));
  const page = await show('/people/lea/offboard');
  const { location = '' } = await send('/people/lea/offboard', { to: 'olga' });

  expect(page).toMatch(/Agent key of <span dir="auto">office</);
  expect(await show(location.replace(home, ''))).toContain(
    'has ended. 3 keys, clients and agents have a new owner. Remove them in your directory and at your identity provider, too.',
  );
});

test('group: a name that another group has is refused, also in other capitals', async () => {
  const { status, text } = await send('/groups', { name: 'SALES & MORE' });

  expect(status).toBe(422);
  expect(text).toContain('The group Sales &amp; more already exists');
});

test('group: the name of a refused mapping is shown again', async () => {
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

test('group: several members join at once, and the addresses that cannot are shown again with the reason', async () => {
  const { db } = app.server.stores;
  await app.browser('ines', { organizationId: 'org_acme', role: 'member' });
  await app.browser('igor', { organizationId: 'org_acme', role: 'member' });
  await app.browser('otto', { organizationId: 'org_acme', role: 'member' });
  await send('/people/invite', { role: 'member', email: 'eve@example.com' });
  const add = (emails: string) => send('/groups/group_sales/add-people', { emails });
  const some = await add(
    'ines@example.com, eve@example.com\r\nIGOR@example.com; ines@example.com\r\n<bob>\r\n',
  );
  const rest = await add('otto@example.com\nigor@example.com');
  const none = await add(' , ');
  const many = await add('a@example.com,'.repeat(1001));
  const people = await listGroupMembers(db, 'group_sales');
  const events = await newestEvents(db, 3);
  for (const name of ['ines', 'igor', 'otto']) {
    await removeGroupMember(db, 'org_acme', 'group_sales', name);
  }

  expect(some.status).toBe(422);
  expect(some.text).toContain('2 members added.');
  expect(some.text).toContain('eve@example.com is invited and has not joined yet: add them after');
  expect(some.text).toContain('“bob” is not an e-mail address');
  expect(some.text).toMatch(
    /<textarea id="emails"[^>]*>\neve@example\.com\n&lt;bob&gt;<\/textarea>/,
  );
  expect(rest.status).toBe(303);
  expect(await show(rest.location?.replace(home, '') ?? '')).toContain(
    '1 member added. 1 was in the group already.',
  );
  expect(none.text).toContain('Type at least one address.');
  expect(many.text).toContain('There are more than 1000 addresses: add them in parts.');
  expect(people.map(({ userId }) => userId)).toEqual(['igor', 'ines', 'otto']);
  expect(events.map(({ action, target }) => `${action} ${target}`)).toEqual(
    ['otto', 'igor', 'ines'].map((name) => `group.add-member group:group_sales user:${name}`),
  );
});

test('group: its page links its people, servers and tools, and it is not deleted meanwhile', async () => {
  const { db } = app.server.stores;
  const audience = new Set(['group_sales']);
  const free = await show('/groups/group_sales');
  await changeToolRules(db, 'target_sales', {
    others: { prompt: audience },
    named: [
      { kind: 'tool', name: 'refund', audience },
      { kind: 'resource', name: 'stock:///secret', audience },
      { kind: 'tool', name: 'search', audience: 'everyone' },
    ],
  });
  await insertGroupMember(db, 'org_acme', 'group_sales', 'adam');
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_sales'] });
  const used = await show('/groups/group_sales');
  await removeGroupMember(db, 'org_acme', 'group_sales', 'adam');
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });
  const list = await show('/groups');
  const tools = [
    ...used.matchAll(/<a href="([^"]+\/tools\/access[^"]*)"[^>]*>([^<]+)<\/a> of <a [^>]+>(\w+)/g),
  ];

  expect(free).toContain('No server and no tool is restricted to this group.');
  expect(free).toContain('/groups/group_sales/delete"');
  expect(free).not.toContain('Servers restricted to this group');
  expect(used).toContain('Servers restricted to this group');
  expect(used).toContain(`href="${home}/servers/sales" dir="auto">sales</a>`);
  expect(used).toContain(`href="${home}/servers/sales/access">Access`);
  expect(used).toContain(`href="${home}/people/adam" dir="auto">adam@example.com</a>`);
  expect(used).toContain('Tools restricted to this group');
  expect(
    tools.map(([, href = '', name, server]) => [href.replace(/.*access/, ''), name, server]),
  ).toEqual([
    ['?state=tool&amp;filter=refund', 'refund', 'sales'],
    ['?state=prompt', 'new prompts', 'sales'],
    ['?state=resource&amp;filter=stock%3A%2F%2F%2Fsecret', 'resource stock:///secret', 'sales'],
  ]);
  expect(used).not.toContain('/groups/group_sales/delete"');
  expect(list).toMatch(/group_sales"[^]*data-label="Tools"[^>]*><span[^>]*>3</);
});

test('access of a server: a change names who gains and loses it, and takes effect once confirmed', async () => {
  const { db } = app.server.stores;
  const access = () => findServerAccess(db, 'srv_sales');
  const path = '/servers/sales/access';
  const restricted = { access: 'groups', 'group.group_sales': 'group_sales' };
  await insertGroupMember(db, 'org_acme', 'group_sales', 'olga');

  const asked = await send(path, restricted);
  const before = await access();
  const review = asked.location?.replace(home, '') ?? '';
  const question = await show(review);
  const done = await send(review, {});
  const page = await show(path);

  expect([asked.status, before?.access]).toEqual([303, 'everyone']);
  expect(question).toContain('adam@example.com');
  expect(question).not.toContain('olga@example.com.');
  expect(done.status).toBe(303);
  expect(await access()).toMatchObject({ access: 'groups', groups: [{ id: 'group_sales' }] });
  expect(page).toMatch(/id="access-groups" value="groups"[^>]* checked/);
  expect(page).toMatch(/id="group-group-sales" value="group_sales"[^>]* checked/);
  expect(page).toContain('1 person');
});

test('access of a server: no group is ticked, and the server stays closed to everyone else', async () => {
  const { db } = app.server.stores;
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_sales'] });

  const { status, text } = await send('/servers/sales/access', { access: 'groups' });

  expect(status).toBe(422);
  expect(text).toContain('The list of groups must contain at least one group.');
  expect(await findServerAccess(db, 'srv_sales')).toMatchObject({ access: 'groups' });
});

test('access of a server: a group without members shows a warning that it locks everyone out', async () => {
  const { db } = app.server.stores;
  await insertGroup(db, { ...sales, id: 'group_empty', name: 'Nobody yet' });
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });

  const question = await show('/servers/sales/access/review?access=groups&group=group_empty');

  expect(question).toContain('No one will be able to use this server');
  const [, back = ''] = /href="\/dashboard\/acme([^"]*)" data-cancel/.exec(question) ?? [];
  expect(await show(back.replaceAll('&amp;', '&'))).toMatch(/id="group-group-empty"[^>]* checked/);
});

test('access of a server: everyone, whatever groups stay ticked', async () => {
  const { db } = app.server.stores;
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_sales'] });
  const open = { access: 'everyone', 'group.group_sales': 'group_sales' };

  const { location = '' } = await send('/servers/sales/access', open);
  await send(location.replace(home, ''), {});

  expect(await findServerAccess(db, 'srv_sales')).toMatchObject({ access: 'everyone', groups: [] });
});
