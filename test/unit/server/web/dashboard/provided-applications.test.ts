import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { putAssertedGrant } from '#server/db/assertion-grants';
import { findClient, listClients } from '#server/db/clients';
import { recordDevice } from '#server/db/devices';
import { findGrant, insertGrant, revokeGrant } from '#server/db/grants';
import { listProviders } from '#server/db/identity-providers';
import { findTrustRule } from '#server/db/trust-rules';
import { insertSomeProvider } from '#support/some-provider';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const home = '/dashboard/acme';
let app: PageApp;
let owner: SignedInBrowser;
let member: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  const at = { organizationId: 'org_acme' };
  owner = await app.browser('olga', { ...at, role: 'owner' }, 2);
  member = await app.browser('mel', { ...at, role: 'member' });
  await insertSomeProvider(app.server.stores.db, { id: 'idp_1', clientId: '', sealedSecret: '' });
});
afterAll(() => app[Symbol.asyncDispose]());

const post = (path: string, fields: object = {}, { cookie, csrfToken } = owner) =>
  app.post({
    path,
    cookie,
    body: new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString(),
  });
const text = async (path: string, { cookie } = owner) => (await app.get(path, cookie)).text;

test('provider without a client: its page offers applications, and neither a redirect URL nor a test', async () => {
  const page = await text(`${home}/sign-in/providers/idp_1`);

  expect(page).toContain('None: people cannot sign in through it');
  expect(page).toContain('Cannot give applications access');
  expect(page).not.toContain('Test sign-in');
  expect(page).not.toContain('/callback');
});

test('applications of a provider: an owner switches them on, and empties the lists again', async () => {
  const path = `${home}/sign-in/providers/idp_1`;
  const { client } = app.server;
  const sent = {
    'allowed.assertionsAllowed': 'assertionsAllowed',
    assertionClients: `${client.id}\nhttps://assistant.example/client.json\n`,
    assertionServers: 'sales',
    nativeClientId: 'latchkey-native',
    keysUrl: '',
  };
  const saved = await post(`${path}/assertions`, sent);
  const record = async () => (await listProviders(app.server.stores.db, 'org_acme'))[0];

  expect([saved.status, saved.location]).toEqual([303, `${path}?done=saved`]);
  expect(await record()).toMatchObject({
    assertionsAllowed: true,
    assertionClients: [client.id, 'https://assistant.example/client.json'],
    assertionServers: ['srv_sales'],
    nativeClientId: 'latchkey-native',
    keysUrl: undefined,
  });
  expect(await text(`${path}/assertions`)).toContain('https://assistant.example/client.json');
  expect(await text(path)).toContain('latchkey-native');
  const wrong = await post(`${path}/assertions`, { ...sent, assertionServers: 'none' });
  expect([wrong.status, wrong.text.includes('names a server that does not exist')]).toEqual([
    422,
    true,
  ]);
  await post(`${path}/assertions`, {
    assertionClients: '',
    assertionServers: '',
    nativeClientId: '',
    keysUrl: '',
  });
  expect(await record()).toMatchObject({
    assertionsAllowed: false,
    assertionClients: [],
    assertionServers: [],
    nativeClientId: undefined,
  });
});

test('OAuth clients of an organization: one is made with a secret that is shown once, listed and revoked', async () => {
  const scopes = { 'scopes.mcp:tools:read': 'mcp:tools:read' };
  const made = await post(`${home}/clients/new`, { name: 'Claude of all', ...scopes });
  const id = /client_[0-9A-Za-z]{24}/.exec(made.text)?.[0] ?? '';
  const list = await text(`${home}/clients`);

  expect(made.text).toMatch(/secret_[0-9A-Za-z]{36}/);
  expect(list).toContain('Claude of all');
  expect(list).not.toMatch(/secret_[0-9A-Za-z]{36}/);
  expect(await text(`${home}/clients/${id}/revoke`)).toContain('Claude of all');
  expect((await post(`${home}/clients/${id}/revoke`)).location).toBe(
    `${home}/clients?done=revoked`,
  );
  expect((await findClient(app.server.stores.db, id))?.revokedAt).toBeDefined();
});

test('workload: it is added with its rule, and the list says what proves it', async () => {
  const scopes = { 'scopes.mcp:tools:read': 'mcp:tools:read' };
  const fields = {
    name: 'Deploy',
    server: 'sales',
    issuer: 'https://127.0.0.1:9/ci',
    subject: 'repo:acme/app:*',
    isSingleUse: 'no',
    ...scopes,
  };
  const added = await post(`${home}/clients/new-workload`, fields);
  const query = { organizationId: 'org_acme', sort: 'createdAt', descending: true } as const;
  const { db } = app.server.stores;
  const { items } = await listClients(db, { ...query, text: 'Deploy', limit: 1, offset: 0 });
  const refused = await post(`${home}/clients/new-workload`, { ...fields, subject: 'repo*' });

  expect(added.location).toBe(`${home}/clients?done=made`);
  expect(await findTrustRule(db, items[0]?.id ?? '')).toMatchObject({
    subject: 'repo:acme/app:*',
    isSingleUse: false,
  });
  expect(await text(`${home}/clients`)).toContain(
    'Workload repo:acme/app:* of https://127.0.0.1:9/ci',
  );
  expect(await text(`${home}/servers/sales/clients/${items[0]?.id}`)).toContain(
    'Workload repo:acme/app:*',
  );
  expect(refused.text).toContain('may contain * only at its end');
});

let grantId: string;
beforeEach(async () => {
  const { db } = app.server.stores;
  await db.deleteFrom('oauth_grant').execute();
  await db.deleteFrom('device').execute();
  grantId = 'grant_1';
  const { client, clock } = app.server;
  await putAssertedGrant(
    db,
    {
      id: grantId,
      userId: member.userId,
      clientId: client.id,
      serverId: 'srv_sales',
      providerId: 'idp_1',
      scopes: ['mcp:tools:read'],
      authenticated: true,
      expiresAt: clock.now() + 1000,
    },
    clock.now(),
  );
});
const stored = () => findGrant(app.server.stores.db, grantId);

test('my applications: a member sees what their organization allowed, withdraws it, and allows it again', async () => {
  const path = `${home}/applications`;
  expect(await text(path, member)).toContain('By your organization');
  expect(await text(path, owner)).not.toContain('By your organization');
  expect((await post(`${path}/${grantId}/withdraw`, {}, owner)).status).toBe(404);
  expect((await post(`${path}/${grantId}/withdraw`, {}, member)).location).toBe(
    `${path}?withdrawn=${grantId}`,
  );
  expect(await text(`${path}?withdrawn=${grantId}`, member)).toContain('Consent withdrawn.');
  expect(await text(`${path}?withdrawn=${grantId}`, owner)).not.toContain('Consent withdrawn.');
  expect((await stored())?.revokedAt).toBeDefined();
  expect(await text(path, member)).toContain('Allow again');
  expect((await post(`${path}/${grantId}/allow`, {}, owner)).status).toBe(404);
  expect((await post(`${path}/${grantId}/allow`, {}, member)).location).toBe(
    `${path}?done=allowed`,
  );

  expect(await stored()).toBeUndefined();
});

/** A member with a grant on each of two devices. */
async function memberWithDevices(name: string) {
  const { db } = app.server.stores;
  const { client, clock } = app.server;
  const person = await app.browser(name, { organizationId: 'org_acme', role: 'member' });
  const { userId } = person;
  const hosts = [
    ['device_vm', 'vm'],
    ['device_laptop', 'laptop'],
  ] as const;
  for (const [id, host] of hosts) {
    const device = { id, claimHash: id, name: host, system: 'Linux' };
    await recordDevice(db, userId, device, clock.now());
    await insertGrant(db, {
      id: `grant_${host}`,
      userId,
      clientId: client.id,
      serverId: 'srv_sales',
      scopes: ['mcp:tools:read'],
      tools: { type: 'all' },
      redirectHost: '127.0.0.1',
      deviceId: id,
      authenticated: false,
      createdAt: clock.now(),
      expiresAt: clock.now() + 1000,
    });
  }
  return person;
}

test('my applications: what names a grant says its server and device, and what the application keeps', async () => {
  const kim = await memberWithDevices('kim');
  const path = `${home}/applications`;
  const list = await text(path, kim);
  const question = await text(`${path}/grant_vm/withdraw`, kim);
  const tools = await text(`${path}/grant_vm/tools`, kim);
  const { location = '' } = await post(`${path}/grant_vm/withdraw`, {}, kim);
  const after = await text(location, kim);
  const { location: last = '' } = await post(`${path}/grant_laptop/withdraw`, {}, kim);
  const none = await text(last, kim);

  const name = 'Claude';
  const left = `${name} keeps access to sales on laptop (Linux).`;
  const gone = `Consent withdrawn. ${name} no longer has access to sales on`;
  expect(list).toContain(`aria-label="Withdraw ${name}: sales on vm (Linux)"`);
  expect(question).toContain(`Withdraw the access of ${name} to sales on vm (Linux)?`);
  expect(question).toContain(left);
  expect(question).toContain('sign it out under “Devices”');
  expect(tools).toContain(`What ${name} may use of sales on vm (Linux)</h1>`);
  expect(tools).toContain(`${name}: sales on vm (Linux)`);
  expect(after).toContain(`${gone} vm (Linux). ${left}`);
  expect(none).toContain(`${gone} laptop (Linux).`);
  expect(none).not.toContain('keeps access');
});

test('account: an application has its device, which can be signed out', async () => {
  const lou = await memberWithDevices('lou');
  const before = await text('/account', lou);
  const { location = '' } = await post('/account/grants/grant_vm/withdraw', {}, lou);
  const after = await text(location, lou);
  const toOther = await text(location, member);

  const signOut = (id: string, host: string) =>
    `href="${home}/applications/devices/${id}/sign-out" aria-label="Sign out ${host} (Linux)"`;
  expect(before).toContain('aria-label="Withdraw from Claude: sales on vm (Linux)"');
  expect(before).toContain(signOut('device_vm', 'vm'));
  expect(before).toContain(signOut('device_laptop', 'laptop'));
  expect(after).toContain('Claude no longer has access to sales on vm (Linux).');
  expect(after).not.toContain(signOut('device_vm', 'vm'));
  expect(after).toContain(signOut('device_laptop', 'laptop'));
  expect(toOther).not.toContain('no longer has access');
});

test('devices: two with the same name have their IDs, as in the list of the proxy', async () => {
  const nia = await memberWithDevices('nia');
  const pages = [`${home}/applications`, '/account'];
  const apart = await Promise.all(pages.map((path) => text(path, nia)));
  await app.server.stores.db.updateTable('device').set({ name: 'vm' }).execute();
  const alike = await Promise.all(pages.map((path) => text(path, nia)));

  for (const page of apart) expect(page).not.toContain('ID device_');
  for (const page of alike) expect(page).toContain('ID device_vm');
  for (const page of alike) expect(page).toContain('ID device_laptop');
});

test('device: the question before it is signed out says what loses access', async () => {
  const oda = await memberWithDevices('oda');
  const question = await text(`${home}/applications/devices/device_vm/sign-out`, oda);

  expect(question).toContain('On vm (Linux), Claude loses access to one server immediately');
});

test('servers: who may not create API keys reads who may', async () => {
  const path = `${home}/servers/sales/keys`;
  const words = 'Administrators create them here.';

  expect(await text(path, member)).toContain(words);
  expect(await text(path, owner)).not.toContain(words);
});

test('account: a person withdraws what an organization allowed, and allows it again', async () => {
  expect(await text('/account', member)).toContain('Allowed by your organization');
  await post(`/account/grants/${grantId}/withdraw`, {}, member);
  expect(await text('/account', member)).toContain('Allow again');
  expect((await post(`/account/grants/${grantId}/allow`, {}, member)).location).toBe(
    '/account?done=allowed',
  );

  expect(await stored()).toBeUndefined();
});

test('consents: an administrator sees what a provider gave and what was withdrawn, and allows it again', async () => {
  const path = `${home}/consents`;
  expect(await text(path)).toContain('By identity provider');
  const question = await text(`${path}/${grantId}/withdraw`);
  expect(question).toMatch(/<h1[^>]*>Withdraw the consent of \S+ to [^<]+ for \w+\?</);
  expect(question).toContain('What they allow it at other servers and on other devices stays.');
  await revokeGrant(app.server.stores.db, grantId, app.server.clock.now());
  const list = await text(path);
  expect(list).toContain('Withdrawn');
  expect(list).toContain(`${path}/${grantId}/allow`);
  expect(await text(`${path}/${grantId}/allow`)).toContain('Allow again');
  expect((await post(`${path}/${grantId}/allow`)).location).toBe(`${path}?done=allowed`);

  expect(await stored()).toBeUndefined();
});
