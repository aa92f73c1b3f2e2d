import { afterAll, beforeAll, expect, test } from 'vitest';

import { setServerAccess } from '#server/db/server-access';
import { updateServer } from '#server/db/servers';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/servers/sales/upstream';
const evil = '"><img src=x>';
const escaped = '&quot;&gt;&lt;img src=x&gt;';

let app: PageApp;
let owner: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  const upstream = { kind: 'http', url: 'https://mcp.example/mcp', publicOnly: true } as const;
  await updateServer(app.server.stores.db, 'srv_sales', { upstream });
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
});
afterAll(() => app[Symbol.asyncDispose]());

const send = (below: string, typed: Record<string, string>) => {
  const body = new URLSearchParams({ csrf_token: owner.csrfToken, ...typed }).toString();
  return app.post({ path: path + below, cookie: owner.cookie, body });
};

test('upstream access: the form shows what is stored, and the fields of a token in a part of their own', async () => {
  const { text } = await app.get(path, owner.cookie);
  const part = /<div class="for-access">[\s\S]*?<\/fieldset><\/div>/.exec(text)?.[0] ?? '';
  const ids = ['redirect-label', 'clientId', 'clientSecret', 'issuer', 'scopes', 'resource'];

  expect(text).toMatch(/id="kind-none" [^>]*checked/);
  expect([...part.matchAll(/ id="(\w+|redirect-label)"/g)].map(([, id]) => id)).toEqual(ids);
  expect(text).toMatch(/with the keys at https?:\/\/\S+\/\.well-known\/jwks\.json/);
});

test('upstream access: what was refused comes back, but never a secret', async () => {
  const typed = {
    kind: 'client_credentials',
    clientId: 'é',
    clientSecret: 'hunter2',
    issuer: evil,
    scopes: 'read "write"',
    'resource.omits': 'omits',
    'caller.tells': 'tells',
  };
  const { status, text } = await send('', typed);

  expect(status).toBe(422);
  expect(text).toContain('The client ID may contain only printable ASCII characters.');
  expect(text).toContain('A scope must not contain spaces or quotes.');
  expect(text).toMatch(/id="kind-client-credentials" [^>]*checked/);
  expect(text).toContain(`value="${escaped}"`);
  expect(text).toContain('value="read &quot;write&quot;"');
  expect(text).toMatch(/id="resource-omits" [^>]*checked/);
  expect(text).toMatch(/id="caller-tells" [^>]*checked/);
  expect(text).not.toContain('hunter2');
});

test('upstream access: without a token, what was entered about one is left out', async () => {
  const { status } = await send('', { kind: 'none', clientId: 'é', 'caller.tells': 'tells' });
  const { text } = await app.get(path, owner.cookie);

  expect(status).toBe(303);
  expect(text).toMatch(/id="caller-tells" [^>]*checked/);
  expect(text).toContain('<input id="clientId" name="clientId" type="text" value=""');
});

test('fixed header: a name that was refused comes back, but never a value', async () => {
  const { status, text } = await send('/headers', { headerName: evil, headerValue: 'hunter2 ' });

  expect(status).toBe(422);
  expect(text).toMatch(/<p class="error" id="headerName-error">The name /);
  expect(text).toContain('The value may not begin or end with a space.');
  expect(text).toContain(`value="${escaped}"`);
  expect(text).not.toContain('hunter2');
});

test('fixed header: to replace a value, its name is filled in and the value has the focus', async () => {
  await send('/headers', { headerName: ' X-Api-Key ', headerValue: 'abc' });
  const { text } = await app.get(`${path}?header=x-api-key`, owner.cookie);

  expect(text).toMatch(/<input id="headerName"[^>]* value="x-api-key"/);
  expect(text).toMatch(/<input id="headerValue"[^>]* autofocus/);
  expect(text).toContain(
    'Enter a new header, or a header from the list above to replace its value. Example: X-Api-Key',
  );
});

test('upstream access: what was saved is tested, and the page says what to do next', async () => {
  const show = async (query: string) => (await app.get(path + query, owner.cookie)).text;
  const reason = 'mcp.example requires authentication (HTTP 401).';
  app.upstreams.inspection = { outcome: 'sign-in-required', isOAuth: false, reason };
  const refused = await show('?done=header');
  app.upstreams.inspection = { outcome: 'connected', protocolVersion: '2025-11-25', tools: [] };
  const good = await show('?done=header');
  app.upstreams.inspection = {
    outcome: 'personal',
    reason: 'Each person connects their own account.',
  };
  const personal = await show('?done=saved');
  app.upstreams.inspection = { outcome: 'offline', reason: 'Connection refused at mcp.example.' };
  const offline = await show('?test=now');
  const untested = await show('');

  expect(refused).toContain('The MCP server refuses these settings');
  expect(refused).toContain(reason);
  expect(good).toContain('The MCP server answers');
  expect(good).toContain('href="/dashboard/acme/servers/sales">Connect an assistant</a>');
  expect(personal).toContain(
    'href="/dashboard/acme/servers/sales/account">Connect your account</a>',
  );
  expect(offline).toContain('Connection refused at mcp.example.');
  expect(offline).toContain('href="/dashboard/acme/servers/sales/settings">Check the URL</a>');
  expect(untested).not.toContain('test-heading');
  expect(refused).toContain('?test=now">Test again</a>');
});

test('own account: a member outside the groups of the server reads that it is closed', async () => {
  const { db } = app.server.stores;
  const member = await app.browser('mia');
  const account = '/dashboard/acme/servers/sales/account';
  const words = 'You cannot use this server: it is restricted to groups that you are not in.';
  const open = await app.get(account, member.cookie);
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: [] });
  const closed = await app.get(account, member.cookie);
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });

  expect(open.text).not.toContain(words);
  expect(closed.text).toContain(words);
});

test('server settings: what was saved is tested', async () => {
  const settings = '/dashboard/acme/servers/sales/settings';
  app.upstreams.inspection = { outcome: 'offline', reason: 'Connection refused at mcp.example.' };

  const saved = await app.get(`${settings}?done=saved`, owner.cookie);
  const opened = await app.get(settings, owner.cookie);

  expect(saved.text).toContain('Connection refused at mcp.example.');
  expect(opened.text).not.toContain('Connection refused at mcp.example.');
});
