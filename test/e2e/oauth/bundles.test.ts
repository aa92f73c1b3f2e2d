import { decodeJwt } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertClient } from '#server/db/clients';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { listGrantsOfPerson } from '#server/db/grants';
import { setServerAccess } from '#server/db/server-access';
import { setPersonKeyRule } from '#server/db/person-keys';
import { findServer, updateServer } from '#server/db/servers';
import { insertOrganization } from '#server/db/organizations';
import { addServers, bundleClient, refusalOf, type BundleClient } from '#support/bundle-client';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { newestEvents } from '#support/newest-events';

// Beside `acme/sales` and `acme/support`: two more, one for a group that Dana is not in, and one of an organization that she does not
// belong to.
let server: GrantingServer;
let client: BundleClient;
let dana: Browser;
beforeAll(async () => {
  server = await grantingServer();
  await addServers(server, ['wiki', 'crm', 'secret']);
  const { db } = server.stores;
  await insertGroup(db, { id: 'group_few', organizationId: 'org_acme', name: 'few', createdAt: 1 });
  await setServerAccess(db, 'srv_secret', { access: 'groups', groupIds: ['group_few'] });
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  await addServers(server, ['foreign'], 'org_other');
  client = await bundleClient(server);
  dana = await server.browser();
});
afterAll(() => server[Symbol.asyncDispose]());

const paths = ['acme/sales', 'acme/support', 'acme/wiki', 'acme/crm'];

/** Signs in with these servers ticked, and gets the first tokens for the list. */
async function signedIn(servers: readonly string[]) {
  const page = await client.ask(dana, [client.list]);
  const callback = await page.allowed(servers);
  return client.redeem(callback, page.verifier, client.list);
}

/** A token for one server, and the next refresh token. */
async function narrowed(refreshToken: string | undefined, path: string) {
  const tokens = await client.refresh(refreshToken ?? '', client.resource(path));
  return { token: tokens.access_token, scope: tokens.scope, next: tokens.refresh_token ?? '' };
}

test('metadata: names the list of servers as a protected resource, and no server', async () => {
  const path = '/.well-known/oauth-protected-resource/api/my/servers';
  const answer = await fetch(server.base + path);
  const asked = await fetch(client.list);

  expect(client.list).toBe(`${server.base}/api/my/servers`);
  expect(await answer.json()).toEqual({
    resource: client.list,
    authorization_servers: [server.base],
    scopes_supported: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
    bearer_methods_supported: ['header'],
  });
  expect([asked.status, asked.headers.get('www-authenticate')]).toEqual([
    401,
    `Bearer resource_metadata="${server.base}${path}"`,
  ]);
});

test('consent to the list: offers what the person may use, ticked for our own proxy, and nothing else', async () => {
  const page = await client.ask(dana, [client.list]);

  expect([...page.offered.keys()].toSorted()).toEqual(paths.toSorted());
  expect([...page.offered.values()].every(({ isTicked }) => isTicked)).toBe(true);
  expect(page.html).not.toContain('secret');
  expect(page.html).not.toContain('foreign');
});

test('a bundle: each token opens the one server that it was requested for', async () => {
  const first = await signedIn(['acme/sales', 'acme/wiki', 'acme/crm']);
  let refreshToken = first.refresh_token ?? '';
  const opened: Record<string, string[]> = {};
  for (const path of ['acme/sales', 'acme/wiki', 'acme/crm']) {
    const { token, scope, next } = await narrowed(refreshToken, path);
    refreshToken = next;
    const everywhere = [...paths, 'acme/secret', 'other/foreign'];
    const statuses = await Promise.all(everywhere.map((other) => client.call(other, token)));
    opened[path] = everywhere.filter((_, at) => statuses[at] !== 401);
    expect(decodeJwt(token)).toMatchObject({
      aud: client.resource(path),
      iss: server.base,
      scope: 'mcp:tools:read mcp:tools:execute',
    });
    expect(scope).toBe('mcp:tools:read mcp:tools:execute');
    expect(await client.servers(token)).toBe(401);
  }

  expect(opened).toEqual({
    'acme/sales': ['acme/sales'],
    'acme/wiki': ['acme/wiki'],
    'acme/crm': ['acme/crm'],
  });
});

test('a bundle: the token for the list opens no server, and the list says what was granted', async () => {
  const first = await signedIn(['acme/sales', 'acme/crm']);
  const statuses = await Promise.all(paths.map((path) => client.call(path, first.access_token)));
  const list = await client.servers(first.access_token);
  if (typeof list === 'number') throw new Error(`refused: ${list}`);

  expect(statuses).toEqual([401, 401, 401, 401]);
  expect(first.scope).toBeUndefined();
  expect([...list].map(([path, { granted }]) => [path, granted])).toEqual([
    ['acme/crm', true],
    ['acme/sales', true],
    ['acme/support', false],
    ['acme/wiki', false],
  ]);
  expect(list.get('acme/crm')).toMatchObject({
    resource: client.resource('acme/crm'),
    scope: 'mcp:tools:read mcp:tools:execute',
    needs_account: false,
  });
});

test('a bundle: the consent page and the list say that a server needs a key of the person', async () => {
  const { db } = server.stores;
  const { target } = (await findServer(db, 'acme', 'wiki')) ?? {};
  const upstream = { kind: 'http', url: 'https://mcp.example/mcp' } as const;
  await updateServer(db, 'srv_wiki', { upstream });
  const rule = { header: 'x-key', template: '{key}', label: 'Access key' };
  await setPersonKeyRule(db, target?.id ?? '', rule);
  const { html } = await client.ask(dana, [client.list]);
  const list = await client.servers((await signedIn(['acme/sales'])).access_token);
  await setPersonKeyRule(db, target?.id ?? '', undefined);
  if (target) await updateServer(db, 'srv_wiki', { upstream: target.upstream });
  if (typeof list === 'number') throw new Error(`refused: ${list}`);

  expect(html).toContain('It needs your own key: your assistant shows where to enter it.');
  expect(list.get('acme/wiki')).toMatchObject({
    needs_account: true,
    account_kind: 'key',
    account_url: `${server.base}/dashboard/acme/servers/wiki/account`,
  });
  expect(list.get('acme/sales')).not.toHaveProperty('account_kind');
});

test('a bundle: a server that was not ticked stays closed, as does any other', async () => {
  const { refresh_token: refreshToken = '' } = await signedIn(['acme/sales']);
  const refusals = [];
  for (const path of ['acme/wiki', 'acme/secret', 'other/foreign', 'acme/nothing']) {
    refusals.push(await refusalOf(client.refresh(refreshToken, client.resource(path))));
  }
  refusals.push(await refusalOf(client.refresh(refreshToken)));
  refusals.push(await refusalOf(client.refresh(refreshToken, server.base)));

  expect(refusals).toEqual(Array.from({ length: 6 }, () => 'invalid_target'));
  expect(await client.call('acme/sales', (await narrowed(refreshToken, 'acme/sales')).token)).toBe(
    200,
  );
});

test('a bundle without the list: the code is for the servers that were ticked, and for no list', async () => {
  const resources = ['acme/sales', 'acme/wiki', 'acme/crm'].map((path) => client.resource(path));
  const page = await client.ask(dana, resources);
  const callback = await page.allowed(['acme/sales', 'acme/wiki']);
  const refusals = [
    await refusalOf(client.redeem(callback, page.verifier)),
    await refusalOf(client.redeem(callback, page.verifier, client.resource('acme/crm'))),
    await refusalOf(client.redeem(callback, page.verifier, client.list)),
  ];
  const first = await client.redeem(callback, page.verifier, client.resource('acme/wiki'));

  expect(refusals).toEqual(['invalid_target', 'invalid_target', 'invalid_target']);
  expect(await client.call('acme/wiki', first.access_token)).toBe(200);
  expect(await client.call('acme/sales', first.access_token)).toBe(401);
  expect(await refusalOf(client.refresh(first.refresh_token ?? '', client.list))).toBe(
    'invalid_target',
  );
});

test('scopes: one list is cut at each server to the rights there, and leaks to no other', async () => {
  const { db } = server.stores;
  const both = await server.browser('admin');
  const membership = { person_id: both.userId, organization_id: 'org_other', role: 'viewer' };
  await db.insertInto('membership').values(membership).execute();
  await insertClient(db, {
    id: 'client_wide',
    name: 'Wide',
    serverId: undefined,
    scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:server:manage'],
    redirectUris: ['http://127.0.0.1/callback'],
    jwks: undefined,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: 1,
  });
  const wide = await bundleClient(server, 'client_wide');
  const [sales, foreign] = [wide.resource('acme/sales'), wide.resource('other/foreign')];
  const scope = 'mcp:tools:read mcp:server:manage';
  const page = await wide.ask(both, [sales, foreign], scope);
  const callback = await page.allowed(['acme/sales', 'other/foreign']);
  const first = await wide.redeem(callback, page.verifier, foreign);
  const second = await wide.refresh(first.refresh_token ?? '', sales);
  const third = await wide.refresh(second.refresh_token ?? '', foreign, { scope });
  const fourth = await wide.refresh(third.refresh_token ?? '', sales, { scope: 'mcp:tools:read' });
  const refusals = [
    await refusalOf(
      wide.refresh(fourth.refresh_token ?? '', foreign, { scope: 'mcp:server:manage' }),
    ),
    await refusalOf(
      wide.refresh(fourth.refresh_token ?? '', sales, { scope: 'mcp:tools:execute' }),
    ),
  ];

  expect(page.offered.get('other/foreign')?.text).toContain('Your role allows here only');
  expect([first.scope, second.scope, third.scope, fourth.scope]).toEqual([
    'mcp:tools:read',
    'mcp:tools:read mcp:server:manage',
    'mcp:tools:read',
    'mcp:tools:read',
  ]);
  expect(decodeJwt(third.access_token)['scope']).toBe('mcp:tools:read');
  expect(refusals).toEqual(['invalid_scope', 'invalid_scope']);
});

test('consent: at a server that is limited to reading, the grant is, and My applications shows it', async () => {
  const { stores } = server;
  const reader = await server.browser();
  const page = await client.ask(reader, [
    client.resource('acme/sales'),
    client.resource('acme/wiki'),
  ]);
  const limited = { 'read-only.srv_wiki': 'on' };
  const again = await (await page.allow([], limited)).text();
  const answer = await page.allow(['acme/sales', 'acme/wiki'], limited);
  const second = await client.ask(reader, [
    client.resource('acme/sales'),
    client.resource('acme/wiki'),
  ]);
  const callback = await second.allow(['acme/sales', 'acme/wiki'], limited);
  await client.redeem(
    new URL(callback.headers.get('location') ?? ''),
    second.verifier,
    client.resource('acme/sales'),
  );
  const grants = await listGrantsOfPerson(stores.db, reader.userId, 2);
  const tools = new Map(grants.map(({ serverPath, tools: { type } }) => [serverPath, type]));
  const own = await fetch(`${server.base}/dashboard/acme/applications`, {
    headers: { cookie: reader.cookie },
  });

  expect(page.html).toContain('No tool that you can use is accepted as read-only yet');
  expect(again).toMatch(/name="read-only\.srv_wiki"[^>]* checked/);
  expect(again).not.toMatch(/name="read-only\.srv_sales"[^>]* checked/);
  expect(answer.status).toBe(403);
  expect(tools).toEqual(
    new Map([
      ['acme/sales', 'all'],
      ['acme/wiki', 'read-only'],
    ]),
  );
  expect(await own.text()).toContain('Only tools that read');
});

test('revocation: what a person withdraws ends at that server alone', async () => {
  const first = await signedIn(['acme/sales', 'acme/wiki']);
  const sales = await narrowed(first.refresh_token, 'acme/sales');
  const wiki = await narrowed(sales.next, 'acme/wiki');
  const grantId = String(decodeJwt(sales.token)['grant_id']);
  const page = await fetch(`${server.base}/account`, { headers: { cookie: dana.cookie } });
  const token = /name="csrf_token" value="([^"]+)"/.exec(await page.text())?.[1] ?? '';
  await fetch(`${server.base}/account/grants/${grantId}/withdraw`, {
    method: 'POST',
    headers: { cookie: dana.cookie, origin: server.base },
    body: new URLSearchParams({ csrf_token: token }),
    redirect: 'manual',
  });

  expect(await client.call('acme/sales', sales.token)).toBe(401);
  expect(await client.call('acme/wiki', wiki.token)).toBe(200);
  expect(await refusalOf(narrowed(wiki.next, 'acme/sales'))).toBe('invalid_target');
  expect(await client.call('acme/wiki', (await narrowed(wiki.next, 'acme/wiki')).token)).toBe(200);
});

test('revocation: a client ends access to one server with a token for it, and all with the refresh token', async () => {
  const first = await signedIn(['acme/sales', 'acme/wiki', 'acme/crm']);
  const sales = await narrowed(first.refresh_token, 'acme/sales');
  const wiki = await narrowed(sales.next, 'acme/wiki');
  await client.revoke(sales.token);
  const afterOne = [
    await refusalOf(narrowed(wiki.next, 'acme/sales')),
    await client.call('acme/wiki', wiki.token),
  ];
  const crm = await narrowed(wiki.next, 'acme/crm');
  await client.revoke(crm.next);

  expect(afterOne).toEqual(['invalid_target', 200]);
  expect(await client.call('acme/wiki', wiki.token)).toBe(401);
  expect(await client.call('acme/crm', crm.token)).toBe(401);
  expect(await client.servers(first.access_token)).toBe(401);
  expect(await refusalOf(narrowed(crm.next, 'acme/crm'))).toBe('invalid_grant');
});

test('a second use of the code ends the whole bundle', async () => {
  const page = await client.ask(dana, [client.list]);
  const callback = await page.allowed(['acme/sales', 'acme/wiki']);
  const first = await client.redeem(callback, page.verifier, client.resource('acme/sales'));
  const again = await refusalOf(client.redeem(callback, page.verifier, client.list));

  expect(again).toBe('invalid_grant');
  expect(await client.call('acme/sales', first.access_token)).toBe(401);
  const events = await newestEvents(server.stores.db, 5);
  expect(events.filter(({ action }) => action === 'authorization-code.reuse').length).toBe(2);
});

test('a person of a group that gives access later reaches the server only with another consent', async () => {
  const first = await signedIn(['acme/sales']);
  await insertGroupMember(server.stores.db, 'org_acme', 'group_few', dana.userId);
  const refused = await refusalOf(narrowed(first.refresh_token, 'acme/secret'));
  const page = await client.ask(dana, [client.list, client.resource('acme/sales')]);

  expect(refused).toBe('invalid_target');
  expect(page.offered.get('acme/secret')).toMatchObject({ isTicked: false });
  expect(page.offered.get('acme/sales')).toMatchObject({ isTicked: true });
});

test('consent: the page is shown again if nothing is ticked, and with no scripts', async () => {
  const page = await client.ask(dana, [client.list]);
  const empty = await page.allow([]);
  const again = await empty.text();

  expect(empty.status).toBe(422);
  expect(again).toContain('Choose at least one server');
  expect(again).not.toContain('<script');
  expect((await page.allow(['acme/sales'])).status).toBe(403);
});

test('consent: a box that the page did not have grants nothing', async () => {
  const page = await client.ask(dana, [client.list]);
  const answer = await page.allow(['acme/sales'], { 'server.srv_foreign': 'srv_foreign' });
  const callback = new URL(answer.headers.get('location') ?? 'none:');
  const { refresh_token: refreshToken } = await client.redeem(callback, page.verifier, client.list);

  expect(await refusalOf(narrowed(refreshToken, 'other/foreign'))).toBe('invalid_target');
});

test('consent: denied for all', async () => {
  const page = await client.ask(dana, [client.list]);
  const answer = await page.deny();

  expect(new URL(answer.headers.get('location') ?? 'none:').searchParams.get('error')).toBe(
    'access_denied',
  );
});
