import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertOrganization } from '#server/db/organizations';
import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const acme = 'org_acme';

test('nodes: the owner of every organization sees which nodes are live, and their clocks', async () => {
  const owner = await app.browser('user_owner', { organizationId: acme, role: 'owner' });

  const { status, text } = await app.get('/nodes', owner.cookie);

  expect(status).toBe(200);
  expect(text).toContain('node-2 &lt;b&gt;');
  expect(text).not.toContain('node-2 <b>');
  expect(text).toMatch(
    /node-1[^]*Alive[^]*1\.2\.3[^]*Less than 0\.1 s[^]*node-2[^]*Not seen[^]*−2\.5 s/,
  );
  expect((await app.get('/organizations', owner.cookie)).text).toContain('href="/nodes"');
});

test('nodes: the page does not exist for other roles, and asks anonymous visitors to sign in', async () => {
  for (const role of ['admin', 'member', 'viewer'] as const) {
    const { cookie } = await app.browser(`user_${role}`, { organizationId: acme, role });

    expect((await app.get('/nodes', cookie)).status).toBe(404);
    expect((await app.get('/organizations', cookie)).text).not.toContain('href="/nodes"');
  }
  const stranger = await app.get('/nodes', '');
  expect([stranger.status, stranger.location]).toEqual([303, '/sign-in?next=%2Fnodes']);
});

test('nodes: the owner of one organization among several does not see them', async () => {
  const owner = await app.browser('user_one', { organizationId: acme, role: 'owner' });
  expect((await app.get('/nodes', owner.cookie)).status).toBe(200);
  await insertOrganization(app.server.stores.db, { id: 'org_x', name: 'x', createdAt: 1 });

  expect((await app.get('/nodes', owner.cookie)).status).toBe(404);
});
