import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertClient, revokeClient } from '#server/db/clients';
import { insertOrganization } from '#server/db/organizations';
import { setServerAccess } from '#server/db/server-access';
import { updateSettings } from '#server/db/settings';
import { addServers, bundleClient, type BundleClient } from '#support/bundle-client';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { newestEvents } from '#support/newest-events';

let server: GrantingServer;
let client: BundleClient;
let dana: Browser;
beforeAll(async () => {
  server = await grantingServer();
  await addServers(server, ['wiki']);
  await insertOrganization(server.stores.db, { id: 'org_other', name: 'other', createdAt: 1 });
  await addServers(server, ['foreign'], 'org_other');
  client = await bundleClient(server);
  dana = await server.browser();
});
afterAll(() => server[Symbol.asyncDispose]());

const own = () => `${server.base}/oauth/clients/latchkey.json`;
const two = () => ['acme/sales', 'acme/wiki'].map((path) => client.resource(path));

/** Posts an answer to the consent page. */
const answer = async (browser: Browser, fields: Record<string, string>) =>
  fetch(`${server.base}/oauth/consent`, {
    method: 'POST',
    headers: { cookie: browser.cookie, origin: server.base },
    body: new URLSearchParams(fields),
    redirect: 'manual',
  });

const field = (html: string, name: string) =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1] ?? '';

test('174: several resources: fifty at most, and each is a server of this issuer', async () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) => client.resource(`acme/s${at}`));
  const asked = [
    await client.ask(dana, [...many(51)]),
    await client.ask(dana, [...two(), 'https://evil.example/mcp/acme/sales']),
    await client.ask(dana, [client.list, `${server.base}/mcp/acme`]),
    await client.ask(dana, [client.list, `${client.list}/`]),
  ];

  const errors = asked.map(({ location }) =>
    new URL(location ?? 'none:').searchParams.get('error'),
  );
  expect(errors).toEqual(asked.map(() => 'invalid_target'));
  expect((await client.ask(dana, [...two(), ...many(48)])).status).toBe(200);
});

test('174: several resources: what does not exist and what is not open to the person look the same', async () => {
  const page = await client.ask(dana, [
    ...two(),
    client.resource('other/foreign'),
    client.resource('other/nothing'),
  ]);
  const [, reasonOfForeign] =
    /<code>other\/foreign<\/code>(<p[^>]*>[^<]*<\/p>)/.exec(page.html) ?? [];
  const [, reasonOfNothing] =
    /<code>other\/nothing<\/code>(<p[^>]*>[^<]*<\/p>)/.exec(page.html) ?? [];

  expect([...page.offered.keys()].toSorted()).toEqual(['acme/sales', 'acme/wiki']);
  expect(reasonOfForeign).toBe(reasonOfNothing);
  expect(reasonOfForeign).toContain('it does not exist, or you have no access to it');
});

test('174: a self-registered client that asks for the list gets no box ticked', async () => {
  await insertClient(server.stores.db, {
    id: 'client_any',
    name: 'Anybody',
    serverId: undefined,
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    redirectUris: ['http://127.0.0.1/callback'],
    jwks: undefined,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: 1,
  });
  const any = await bundleClient(server, 'client_any');
  const page = await any.ask(dana, [any.list]);

  expect([...page.offered.values()].some(({ isTicked }) => isTicked)).toBe(false);
});

test('175: a question is answered only in the session that was asked, and only as the question that it is', async () => {
  const other = await server.browser();
  const several = await client.ask(dana, two());
  const csrf = field(await pageOf(other), 'csrf_token');
  const boxes = { 'server.srv_sales': 'srv_sales', decision: 'allow' };
  const request = field(several.html, 'request');
  const elsewhere = await answer(other, { ...boxes, request, back: '/', csrf_token: csrf });
  const asSingle = await answer(dana, {
    ...boxes,
    request,
    csrf_token: field(several.html, 'csrf_token'),
  });
  const single = await server.authorize(dana);
  const page = await single.text();
  const asSeveral = await answer(dana, {
    ...boxes,
    request: field(page, 'request'),
    back: '/',
    csrf_token: field(page, 'csrf_token'),
  });

  expect([elsewhere.status, asSingle.status, asSeveral.status]).toEqual([403, 403, 403]);
  expect((await several.allow(['acme/sales'])).status).toBe(303);
  expect((await server.decide(dana, page, 'allow')).status).toBe(303);
});

async function pageOf(browser: Browser): Promise<string> {
  return (await client.ask(browser, two())).html;
}

test('176: token request: two resources are refused, and the code stays valid', async () => {
  const page = await client.ask(dana, two());
  const callback = await page.allowed(['acme/sales', 'acme/wiki']);
  const form = new URLSearchParams({
    grant_type: 'authorization_code',
    code: callback.searchParams.get('code') ?? '',
    code_verifier: page.verifier,
    client_id: own(),
    redirect_uri: server.redirectUri,
  });
  for (const resource of two()) form.append('resource', resource);
  const refused = await fetch(`${server.base}/api/oauth/token`, { method: 'POST', body: form });
  const [sales] = two();
  const redeemed = await client.redeem(callback, page.verifier, sales);

  expect([refused.status, await refused.json()]).toMatchObject([400, { error: 'invalid_request' }]);
  expect(await client.call('acme/sales', redeemed.access_token)).toBe(200);
});

test('177: access that ends between page and answer: nothing is granted, and the page says where', async () => {
  const { db } = server.stores;
  const page = await client.ask(dana, two());
  await setServerAccess(db, 'srv_wiki', { access: 'groups', groupIds: [] });
  const answered = await page.allow(['acme/sales', 'acme/wiki']);
  const html = await answered.text();
  await setServerAccess(db, 'srv_wiki', { access: 'everyone', groupIds: [] });

  expect(answered.status).toBe(403);
  expect(html).toContain('Your permissions changed, and nothing was allowed');
  expect(html).toContain('acme/wiki');
});

test('105: several servers: a client changed while the page is open gets nothing, and this is audited for each server', async () => {
  const id = 'client_changed';
  const secret = { jwks: undefined, secretHash: undefined, secretHint: undefined };
  const terms = {
    scopes: ['mcp:tools:read'],
    redirectUris: ['http://127.0.0.1/callback'],
  } as const;
  await insertClient(server.stores.db, {
    id,
    name: 'Changed',
    serverId: undefined,
    createdAt: 1,
    ...terms,
    ...secret,
  });
  const page = await (await bundleClient(server, id)).ask(dana, two());
  await revokeClient(server.stores.db, id, 2);
  const { status, headers } = await page.allow(['acme/sales', 'acme/wiki']);
  const events = await newestEvents(server.stores.db, 2);

  expect([status, headers.get('location')]).toEqual([400, null]);
  expect(events).toMatchObject(
    ['acme/wiki', 'acme/sales'].map((path) => ({
      actor: `user:${dana.userId}`,
      organization: 'acme',
      action: 'consent.client-changed',
      target: `${id} ${path}`,
      outcome: 'refused',
    })),
  );
});

test('177: an organization that requires a second factor offers nothing to a session with one, also not in the list', async () => {
  const { db } = server.stores;
  const both = await server.browser();
  const membership = { person_id: both.userId, organization_id: 'org_other', role: 'member' };
  await db.insertInto('membership').values(membership).execute();
  await updateSettings(db, 'org_other', { secondFactorRequired: true });
  const page = await client.ask(both, [client.list]);
  const first = await client.redeem(await page.allowed(['acme/sales']), page.verifier, client.list);
  const list = await client.servers(first.access_token);
  await updateSettings(db, 'org_other', { secondFactorRequired: false });

  expect([...page.offered.keys()]).not.toContain('other/foreign');
  expect(page.html).toContain('its organization requires a second factor');
  expect(typeof list === 'number' ? list : [...list.keys()]).toEqual([
    'acme/sales',
    'acme/support',
    'acme/wiki',
  ]);
});

test('178: the list of servers takes tokens for the list, and no other credential', async () => {
  const single = await server.signIn(dana);
  const page = await client.ask(dana, [client.list]);
  const first = await client.redeem(await page.allowed(['acme/sales']), page.verifier, client.list);
  const statuses = [];
  for (const token of [single.accessToken, 'pat_x', 'mcp_x', '', first.refresh_token ?? '']) {
    statuses.push(await client.servers(token));
  }
  await client.revoke(first.access_token);

  expect(statuses).toEqual([401, 401, 401, 401, 401]);
  expect(await client.servers(first.access_token)).toBe(401);
});

test('178: a closed organization: its servers are neither offered to a self-registered client nor listed for it', async () => {
  const { db } = server.stores;
  const page = await client.ask(dana, [client.list]);
  const first = await client.redeem(await page.allowed(['acme/sales']), page.verifier, client.list);
  await updateSettings(db, 'org_acme', { latchkeyProxyAllowed: false });
  const list = await client.servers(first.access_token);
  const again = await client.ask(dana, [client.list]);
  await updateSettings(db, 'org_acme', { latchkeyProxyAllowed: true });

  expect(typeof list === 'number' ? list : [...list.keys()]).toEqual([]);
  expect(again.status).toBe(403);
});
