import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertGroup, insertGroupMember } from '#server/db/groups';
import { setServerAccess } from '#server/db/server-access';
import { whereCallsEnd } from '#server/web/dashboard/try';
import { pageApp, type PageApp } from '#support/page-app';

const page = '/dashboard/acme/servers/sales/try';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('try page: an owner outside the server’s groups is told so, and where the groups are chosen', async () => {
  const { clock, stores } = app.server;
  const owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const member = await app.browser('mia');
  const group = { id: 'group_board', organizationId: 'org_acme', name: 'Board' };
  const open = await app.get(page, owner.cookie);
  await insertGroup(stores.db, { ...group, createdAt: clock.now() });
  await insertGroupMember(stores.db, 'org_acme', group.id, member.userId);
  await setServerAccess(stores.db, 'srv_sales', { access: 'groups', groupIds: [group.id] });

  const outside = await app.get(page, owner.cookie);
  const inside = await app.get(page, member.cookie);

  expect(outside.status).toBe(200);
  expect(outside.text).toContain(
    'You cannot use any tool of this server: it is restricted to groups that you are not in.',
  );
  expect(outside.text).toContain('href="/dashboard/acme/servers/sales/access"');
  expect(outside.text).not.toContain('credential');
  expect([open.text, inside.text].join('\n')).not.toContain('restricted to groups');
});

test('try page: an error is a sentence, with its code in small print below', async () => {
  const member = await app.browser('una', { organizationId: 'org_acme', role: 'owner' });
  await setServerAccess(app.server.stores.db, 'srv_sales', { access: 'everyone', groupIds: [] });

  const { text } = await app.get(page, member.cookie);

  expect(text).toMatch(/role="status"><p dir="auto">[A-Z](?:(?!-32)[^<])+\.<\/p>/);
  expect(text).toMatch(/<p class="help fine">Error code <code>-32\d{3}<\/code><\/p>/);
});

const away = { outcome: 'error', message: 'It cannot be reached.', code: -32_000 } as const;
const visit = { organization: 'acme', may: () => true };
const http = { name: 'crm', upstream: { kind: 'http', url: 'https://mcp.example/mcp' } } as const;
const served = { name: 'crm', upstream: { kind: 'agent', agent: 'head-office' } } as const;

test('try page: an administrator of a server that does not answer is told where its calls go', () => {
  const next = whereCallsEnd(away, http, visit);

  expect(next?.text).toMatch(
    /https:\/\/mcp\.example\/mcp.*public internet.*latchkey-server outbound allow.*agent/,
  );
  expect(next?.link.href).toBe('/dashboard/acme/servers/crm/settings');
});

test('try page: for a server behind an agent it links to the agent’s page', () => {
  const next = whereCallsEnd(away, served, visit);

  expect(next?.text).toMatch(/head-office.*connected.*crm/);
  expect(next?.link.href).toBe('/dashboard/acme/agents/head-office');
});

test('try page: no hint for people who cannot change it, nor for errors with another cause', () => {
  const member = whereCallsEnd(away, http, { ...visit, may: () => false });
  const unknownTool = whereCallsEnd({ ...away, code: -32_602 }, http, visit);
  const demo = whereCallsEnd(away, { name: 'crm', upstream: { kind: 'demo' } }, visit);

  expect([member, unknownTool, demo]).toEqual([undefined, undefined, undefined]);
});
