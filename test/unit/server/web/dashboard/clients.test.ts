import { afterAll, beforeAll, expect, test } from 'vitest';

import { listClients } from '#server/db/clients';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const server = '/dashboard/acme/servers/sales';
const scopes = { 'scopes.mcp:tools:read': 'mcp:tools:read' };

let app: PageApp;
let owner: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
});
afterAll(() => app[Symbol.asyncDispose]());

const send = (path: string, typed: Record<string, string>) => {
  const body = new URLSearchParams({ csrf_token: owner.csrfToken, ...typed }).toString();
  return app.post({ path: server + path, cookie: owner.cookie, body });
};
const named = async (name: string) => {
  const { items } = await listClients(app.server.stores.db, {
    organizationId: 'org_acme',
    text: name,
    sort: 'name',
    descending: false,
    limit: 10,
    offset: 0,
  });
  return items;
};

test('new client: the form offers the ordinary scopes and a secret', async () => {
  const { text } = await app.get(`${server}/new-client`, owner.cookie);

  expect(text).toMatch(/id="scopes-mcp-tools-read" [^>]*checked/);
  expect(text).not.toMatch(/id="scopes-mcp-server-manage" [^>]*checked/);
  expect(text).toMatch(/id="proof-secret" [^>]*checked/);
  expect(text).toMatch(/<input id="name"[^>]* autofocus/);
});

test('new client: input that is refused comes back, and each error names what is wrong', async () => {
  const redirectUris = 'https://app.example/cb\nhttp://app.example/<b>';
  const { status, text } = await send('/new-client', { redirectUris, proof: 'keys', jwks: '{' });

  expect(status).toBe(422);
  expect(text).toContain('The name is empty.');
  expect(text).toContain('The scopes must contain at least 1 item.');
  expect(text).toMatch(/The redirect URI http:\/\/app\.example\/&lt;b&gt; /);
  expect(text).toContain('The JWK set must be an object.');
  expect(text).toContain('https://app.example/cb\nhttp://app.example/&lt;b&gt;</textarea>');
  expect(text).toMatch(/id="proof-keys" [^>]*checked/);
  expect(text).toContain('<title>Not saved yet');
});

test('new client: keys without any are refused, rather than making a secret', async () => {
  const { status, text } = await send('/new-client', { name: 'Keyless', ...scopes, proof: 'keys' });

  expect(status).toBe(422);
  expect(text).toContain('The JWK set must be an object.');
  expect(await named('Keyless')).toEqual([]);
});

test('new client: with a secret, what was entered as keys is left out', async () => {
  const { status, text } = await send('/new-client', {
    name: 'Secretive',
    ...scopes,
    proof: 'secret',
    jwks: 'not looked at',
  });

  expect(status).toBe(200);
  expect(text).toContain('Client secret');
  expect(await named('Secretive')).toMatchObject([{ scopes: ['mcp:tools:read'], jwks: undefined }]);
});

test('client settings: the form shows the client, changes it, and can empty its redirect URIs', async () => {
  const redirectUris = 'https://app.example/cb\nhttps://app.example/cb2';
  await send('/new-client', { name: 'Changed', ...scopes, redirectUris });
  const [client] = await named('Changed');
  const path = `/clients/${client?.id}/settings`;

  const { text } = await app.get(server + path, owner.cookie);
  const nameless = await send(path, { ...scopes, redirectUris });
  const saved = await send(path, {
    name: 'Changed twice',
    'scopes.mcp:tools:execute': 'mcp:tools:execute',
  });

  expect(text).toContain(`${redirectUris}</textarea>`);
  expect(text).toMatch(/id="name"[^>]* value="Changed"/);
  expect(text).toMatch(/id="scopes-mcp-tools-read" [^>]*checked/);
  expect(text).not.toContain('name="proof"');
  expect(nameless.status).toBe(422);
  expect(nameless.text).toContain('The name is empty.');
  expect(saved.status).toBe(303);
  expect(await named('Changed twice')).toMatchObject([
    { scopes: ['mcp:tools:execute'], redirectUris: [] },
  ]);
});
