import { afterAll, beforeAll, expect, test } from 'vitest';

import { findClient, listClients } from '#server/db/clients';
import { insertGroup } from '#server/db/groups';
import { findKey, listKeys } from '#server/db/keys';
import { changeToolRules } from '#server/db/tool-rules';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const server = '/dashboard/acme/servers/sales';
const scopes = { 'scopes.mcp:tools:execute': 'mcp:tools:execute' };

let app: PageApp;
let admin: SignedInBrowser;
let viewer: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  const { db } = app.server.stores;
  admin = await app.browser('ada', { organizationId: 'org_acme', role: 'admin' });
  viewer = await app.browser('vera', { organizationId: 'org_acme', role: 'viewer' });
  await insertGroup(db, {
    id: 'group_a',
    organizationId: 'org_acme',
    name: 'Finance',
    createdAt: 1,
  });
  await changeToolRules(db, 'target_sales', {
    named: [
      { kind: 'tool', name: 'refund', audience: new Set(['group_a']) },
      { kind: 'tool', name: 'search', audience: 'everyone' },
      { kind: 'template', name: 'file:///{name}', audience: 'everyone' },
    ],
  });
});
afterAll(() => app[Symbol.asyncDispose]());

const send = (
  path: string,
  typed: Record<string, string>,
  { cookie, csrfToken }: Pick<SignedInBrowser, 'cookie' | 'csrfToken'> = admin,
) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...typed }).toString();
  return app.post({ path: server + path, cookie, body });
};
const page = { sort: 'name', descending: false, limit: 10, offset: 0 } as const;
const keyNamed = async (text: string) => {
  const query = { organizationId: 'org_acme', text, now: app.server.clock.now(), ...page };
  const [key] = (await listKeys(app.server.stores.db, query)).items;
  return key;
};
const clientNamed = async (text: string) => {
  const [client] = (
    await listClients(app.server.stores.db, { organizationId: 'org_acme', text, ...page })
  ).items;
  return client;
};

test('key form: it offers what the server is known to have, and says which of it is restricted', async () => {
  const { text } = await app.get(`${server}/new-key`, admin.cookie);
  const itemOf = (name: string) =>
    new RegExp(`<li>\\s*<input type="checkbox" name="${name}"[^]*?</li>`).exec(text)?.[0] ?? '';

  expect(text).toMatch(/id="tools-all" [^>]*checked/);
  expect(itemOf('tools.tool.refund')).toContain('Some groups');
  expect(itemOf('tools.tool.search')).not.toContain('Some groups');
  expect(itemOf('tools.resource.file%3A%2F%2F%2F%7Bname%7D')).toContain('file:///{name}');
  expect(text).toContain(
    'To let this key use a tool that is restricted to groups, choose the tool',
  );
});

test('key form: a key is limited to chosen tools, and its page names them to those who may know them', async () => {
  const chosen = { tools: 'chosen', 'tools.tool.refund': 'on' };
  const { status } = await send('/new-key', { name: 'Chosen', ...scopes, ...chosen, expiry: '90' });
  const key = await keyNamed('Chosen');
  const { text } = await app.get(`${server}/keys/${key?.id}`, admin.cookie);
  const ofViewer = await app.get(`${server}/keys/${key?.id}`, viewer.cookie);

  expect(status).toBe(200);
  expect(key?.tools).toEqual({ type: 'chosen', tools: ['refund'], prompts: [], resources: [] });
  expect(text).toContain('Only 1 tool');
  expect(text).toMatch(/<li><code dir="auto">refund<\/code><\/li>/);
  expect(ofViewer.text).toContain('Only 1 that you cannot use');
  expect(ofViewer.text).not.toMatch(/refund|Change tools/);
});

test('key form: no tool at all is refused beside the choice', async () => {
  const { status, text } = await send('/new-key', {
    name: 'Nothing',
    ...scopes,
    tools: 'chosen',
    expiry: '90',
  });

  expect(status).toBe(422);
  expect(text).toContain(
    '<a href="#tools">The choice of tools must contain at least one name.</a>',
  );
  expect(text).toMatch(/id="tools-chosen" [^>]*checked/);
  expect(await keyNamed('Nothing')).toBeUndefined();
});

test('tools of a key: they are changed later, and a viewer may not', async () => {
  await send('/new-key', { name: 'Changed', ...scopes, tools: 'all', expiry: '90' });
  const { id = '' } = (await keyNamed('Changed')) ?? {};
  const before = await findKey(app.server.stores.db, id);
  const refused = await send(`/keys/${id}/tools`, { tools: 'all' }, viewer);
  const answer = await send(`/keys/${id}/tools`, { tools: 'read-only' });
  const { text } = await app.get(`${server}/keys/${id}/tools`, admin.cookie);

  expect(before?.tools).toEqual({ type: 'all' });
  expect(refused.status).toBe(403);
  expect(answer.location).toBe(`${server}/keys/${id}?done=tools`);
  expect((await findKey(app.server.stores.db, id))?.tools).toEqual({ type: 'read-only' });
  expect(text).toMatch(/id="tools-read-only" [^>]*checked/);
});

test('client form: the choice is made with the client and changed with its settings', async () => {
  const typed = { name: 'Reader', ...scopes, redirectUris: 'https://app.example/cb' };
  await send('/new-client', { ...typed, proof: 'secret', tools: 'read-only' });
  const { id = '', tools } = (await clientNamed('Reader')) ?? {};
  const uri = encodeURIComponent('file:///{name}');
  const chosen = { tools: 'chosen', [`tools.resource.${uri}`]: 'on', 'tools-tool': 'later' };
  await send(`/clients/${id}/settings`, { ...typed, ...chosen });
  const { text } = await app.get(`${server}/clients/${id}`, viewer.cookie);

  expect(tools).toEqual({ type: 'read-only' });
  expect(await findClient(app.server.stores.db, id)).toMatchObject({
    tools: { type: 'chosen', tools: ['later'], resources: ['file:///{name}'] },
  });
  expect(text).toContain('Only 1 tool, 1 resource');
});

test('client form: a page of before keeps the choice', async () => {
  const { id = '' } = (await clientNamed('Reader')) ?? {};
  const before = await findClient(app.server.stores.db, id);
  await send(`/clients/${id}/settings`, { name: 'Reader', ...scopes });
  const after = await findClient(app.server.stores.db, id);

  expect(after?.tools).toEqual(before?.tools);
});

test('workload form: names are typed, because the server may be any', async () => {
  const { text } = await app.get('/dashboard/acme/clients/new-workload', admin.cookie);

  expect(text).toContain('id="tools-read-only"');
  expect(text).toContain('name="tools-tool"');
  expect(text).not.toContain('name="tools.tool.refund"');
});
