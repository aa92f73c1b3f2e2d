import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertAccessRequest } from '#server/db/access-requests';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { insertOrganization } from '#server/db/organizations';
import { insertUser, removeMember } from '#server/db/people';
import { setServerAccess } from '#server/db/server-access';
import { addServers, bundleClient, type BundleClient } from '#support/bundle-client';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';

let server: GrantingServer;
let client: BundleClient;
let dana: Browser;
let token: string;
beforeAll(async () => {
  server = await grantingServer();
  await addServers(server, ['wiki', 'crm', 'payroll', 'secret']);
  const { db } = server.stores;
  const group = { id: 'group_1', organizationId: 'org_acme', name: 'staff', createdAt: 1 };
  await insertGroup(db, group);
  client = await bundleClient(server);
  dana = await server.browser();
  await insertGroupMember(db, 'org_acme', group.id, dana.userId);
  for (const name of ['payroll', 'secret']) {
    const choice = { access: 'groups', groupIds: [], isRequestable: name === 'payroll' } as const;
    await setServerAccess(db, `srv_${name}`, choice);
  }
  const page = await client.ask(dana, [client.list]);
  const callback = await page.allowed(['acme/wiki', 'acme/crm']);
  token = (await client.redeem(callback, page.verifier, client.list)).access_token;
});
afterAll(() => server[Symbol.asyncDispose]());

interface List {
  readonly servers: readonly { readonly name: string; readonly uses: readonly object[] }[];
  readonly askable: readonly { readonly name: string; readonly request?: object }[];
  readonly withdrawn: readonly string[];
}

async function list(known: readonly string[], accessToken = token): Promise<List | number> {
  const query = new URLSearchParams(known.map((url): [string, string] => ['known', url]));
  const answer = await fetch(`${client.list}?${query.toString()}`, {
    headers: { authorization: `Bearer ${accessToken}` },
  });
  return answer.ok ? JSON.parse(await answer.text()) : answer.status;
}

test('212: withdrawn servers: only what the program names is said to be, and only without access or without such a server', async () => {
  const { db } = server.stores;
  const urls = ['acme/wiki', 'acme/crm', 'acme/secret', 'acme/nowhere'].map((path) =>
    client.resource(path),
  );
  const before = await list(urls);
  await setServerAccess(db, 'srv_crm', { access: 'groups', groupIds: [] });
  await db.updateTable('endpoint').set({ disabled_at: 1 }).where('id', '=', 'srv_wiki').execute();
  const after = await list(urls);
  const unasked = await list([]);
  const foreign = await list([
    'https://elsewhere.example/mcp/acme/crm',
    `${client.resource('acme/crm')}/x`,
    `${server.base}/mcp/acme`,
    'acme/crm',
  ]);
  await db
    .updateTable('endpoint')
    .set({ disabled_at: null })
    .where('id', '=', 'srv_wiki')
    .execute();
  await setServerAccess(db, 'srv_crm', { access: 'groups', groupIds: ['group_1'] });
  const again = await list(urls);

  // The answer does not distinguish a server that is hidden from the person from one that does not exist.
  const never = urls.slice(2);
  expect(before).toMatchObject({ withdrawn: never });
  expect(after).toMatchObject({ withdrawn: [client.resource('acme/crm'), ...never] });
  expect([unasked, foreign]).toMatchObject([{ withdrawn: [] }, { withdrawn: [] }]);
  expect(again).toMatchObject({ withdrawn: never });
  expect(await list(urls, 'no token')).toBe(401);
});

test('227: withdrawn servers: nothing is said of an organization in which the person chose no server, whether or not they belong to it', async () => {
  const { db } = server.stores;
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  await addServers(server, ['theirs'], 'org_other');
  const lee = await server.browser();
  const chosen = async (names: readonly string[]) => {
    const page = await client.ask(lee, [
      client.list,
      ...names.map((name) => client.resource(name)),
    ]);
    const callback = await page.allowed(names);
    return (await client.redeem(callback, page.verifier, client.list)).access_token;
  };
  const ofAcme = await chosen(['acme/wiki']);
  const urls = ['other/theirs', 'other/nowhere', 'nobody/web'].map((path) => client.resource(path));
  const stranger = await list(urls, ofAcme);
  const email = `${lee.userId.replace('user_', 'person')}@example.com`;
  const user = { id: lee.userId, email, createdAt: 1 };
  await insertUser(db, user, { organizationId: 'org_other', role: 'member' });
  const member = await list(urls, ofAcme);
  const ofBoth = await chosen(['acme/wiki', 'other/theirs']);
  const before = await list(urls, ofBoth);
  await setServerAccess(db, 'srv_theirs', { access: 'groups', groupIds: [] });
  const closed = await list(urls, ofBoth);
  await removeMember(db, 'org_other', lee.userId, 'member');

  expect([stranger, member]).toMatchObject([{ withdrawn: [] }, { withdrawn: [] }]);
  expect(before).toMatchObject({ withdrawn: [client.resource('other/nowhere')] });
  expect(closed).toMatchObject({ withdrawn: urls.slice(0, 2) });
  expect(await list(urls, ofBoth)).toMatchObject({ withdrawn: [] });
});

test('210: access request: the list names what may be asked for, with the person’s own request, and nothing that is hidden', async () => {
  const { db } = server.stores;
  const of = { organizationId: 'org_acme', server: 'payroll', reason: 'why' };
  const before = await list([]);
  const lee = await server.browser();
  await insertAccessRequest(db, { ...of, id: 'request_lee', userId: lee.userId }, 1);
  const asked = await list([]);
  await insertAccessRequest(db, { ...of, id: 'request_dana', userId: dana.userId }, 2);
  const own = await list([]);

  expect(before).toMatchObject({ askable: [{ name: 'payroll' }] });
  expect(asked).toEqual(before);
  expect(own).toMatchObject({
    askable: [{ name: 'payroll', request: { status: 'open', asked_at: 2, answer: '' } }],
  });
  expect(JSON.stringify(own)).not.toContain('secret');
});
