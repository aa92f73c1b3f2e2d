import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageApp, type PageApp } from '#support/page-app';

const page = '/dashboard/acme/servers/sales/try';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('an owner outside the groups of a server learns that, and where the groups are chosen', async () => {
  const { clock, stores } = app.server;
  const owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const member = await app.browser('mia');
  const group = { id: 'group_board', organizationId: 'org_acme', name: 'Board' };
  const open = await app.get(page, owner.cookie);
  await stores.groups.add({ ...group, createdAt: clock.now() });
  await stores.groupMembers.add('org_acme', group.id, member.userId);
  await stores.serverGroups.set('srv_sales', [group.id]);

  const outside = await app.get(page, owner.cookie);
  const inside = await app.get(page, member.cookie);

  expect(outside.status).toBe(200);
  expect(outside.text).toContain('This server is kept to groups, and you are in none of them.');
  expect(outside.text).toContain('href="/dashboard/acme/servers/sales/access"');
  expect(outside.text).not.toContain('credential');
  expect([open.text, inside.text].join('\n')).not.toContain('kept to groups');
});

test('what went wrong is a sentence, and the code of the error small print below it', async () => {
  const member = await app.browser('una', { organizationId: 'org_acme', role: 'owner' });
  await app.server.stores.serverGroups.set('srv_sales', []);

  const { text } = await app.get(page, member.cookie);

  expect(text).toMatch(/role="status"><p dir="auto">[A-Z](?:(?!-32)[^<])+\.<\/p>/);
  expect(text).toMatch(/<p class="help fine">Error code <code>-32\d{3}<\/code><\/p>/);
});
