import { afterAll, beforeAll, expect, test } from 'vitest';

import { findPublished } from '#server/db/deployment';
import { insertGroup } from '#server/db/groups';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

let app: PageApp;
let owner: SignedInBrowser;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('user_ola', { organizationId: 'org_acme', role: 'owner' });
  admin = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const group = { id: 'group_1', organizationId: 'org_acme', name: 'staff' };
  await insertGroup(app.server.stores.db, { ...group, createdAt: 1 });
});
afterAll(() => app[Symbol.asyncDispose]());

const home = '/dashboard/acme/deploy';
const sales = `${home}/servers/sales`;
const send = (path: string, fields: Readonly<Record<string, string>>, by = owner) => {
  const body = new URLSearchParams({ csrf_token: by.csrfToken, ...fields }).toString();
  return app.post({ path, cookie: by.cookie, body });
};
const show = async (path: string, by = admin) => (await app.get(path, by.cookie)).text;
const warning = 'Nothing is published in the registry: with this file, VS Code runs no MCP server';
const published = () => findPublished(app.server.stores.db, 'acme', 'sales');

test('deploy: a server is installed for nobody by default, then for a group, then for everyone', async () => {
  const before = await show(home);
  await send(sales, { install: 'groups', 'group.group_1': 'group_1' }, admin);
  const ofNobody = await app.get(`${home}/files/claude-code?connection=direct`, admin.cookie);
  const ofGroup = await show(`${home}/files/claude-code?connection=latchkey&group.group_1=group_1`);
  await send(sales, { install: 'everyone' }, admin);
  const ofEveryone = await app.get(`${home}/files/cursor`, admin.cookie);
  const page = await show(home);

  expect(before).toContain('No server is installed by default for this choice,');
  expect(before).not.toContain('/files/claude-code');
  expect(before).toContain('/files/vscode-policy');
  expect(before.split(warning)).toHaveLength(4);
  expect(ofNobody.status).toBe(409);
  expect(ofNobody.text).toContain('No server is installed by default for this selection,');
  expect(JSON.parse(ofGroup).mcpServers.sales).toMatchObject({ command: 'latchkey' });
  expect(JSON.parse(ofEveryone.text).mcpServers.sales).toMatchObject({ type: 'http' });
  expect(page).toContain('1 server in each file except the policies, which contain none: sales.');
  expect(page).toContain('/files/claude-code');
  expect(page).toContain('cursor://anysphere.cursor-deeplink/mcp/install?name=sales&amp;config=');
});

test('deploy: groups without one are refused beside the field', async () => {
  const { status, text } = await send(sales, { install: 'groups' }, admin);

  expect(status).toBe(422);
  expect(text).toContain('The list of groups must contain at least one group.');
});

test('deploy: an owner publishes a server, changes its words and stops', async () => {
  const wrong = await send(`${sales}/publish`, { title: '', description: '' });
  await send(`${sales}/publish`, { title: 'Sales', description: 'Orders' });
  const first = await published();
  const page = await show(sales, owner);
  const list = await show(home);
  await send(`${sales}/publish`, { title: 'Sales', description: 'All orders' });
  const second = await published();
  await send(`${sales}/unpublish`, {}, admin);

  expect(wrong.status).toBe(422);
  expect(first).toMatchObject({ title: 'Sales', description: 'Orders', version: 1 });
  expect(page).toContain('/mcp/acme/sales/server-card');
  expect(list).toContain('>Public<');
  expect(list).not.toContain(warning);
  expect(second).toMatchObject({ description: 'All orders', version: 2 });
  expect(await published()).toBeUndefined();
});

test('deploy: an admin publishes nothing', async () => {
  const { status } = await send(`${sales}/publish`, { title: 'x', description: 'x' }, admin);

  expect(status).toBe(403);
  expect(await show(sales, admin)).toContain('Only an owner can publish a server.');
  expect(await published()).toBeUndefined();
});

test('deploy: the page says which assistants need the internet, and the address of this installation', async () => {
  const page = await show(home);

  expect(page).toContain('They call from their vendor’s cloud');
  expect(page).toContain(
    'Latchkey cannot tell whether this address can be reached from the internet',
  );
  expect(page).toContain('<code>https://latchkey.example</code>');
});

test('deploy: members neither see the page nor get a file', async () => {
  const mel = await app.browser('user_mel', { organizationId: 'org_acme', role: 'member' });

  expect((await app.get(home, mel.cookie)).status).toBe(403);
  expect((await app.get(`${home}/files/codex`, mel.cookie)).status).toBe(403);
});
