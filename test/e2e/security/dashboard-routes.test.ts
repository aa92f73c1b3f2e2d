import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { listClientSecrets } from '#server/db/client-secrets';
import { listGrantsOfPerson } from '#server/db/grants';
import { insertAccessRequest } from '#server/db/access-requests';
import { insertAgent } from '#server/db/agents';
import { insertOrganization } from '#server/db/organizations';
import { insertScimToken } from '#server/db/scim-tokens';
import { setServerAccess } from '#server/db/server-access';
import { insertServer } from '#server/db/servers';
import { createKey } from '#server/admin/create-credentials';
import { recordCalls as recordActivity } from '#support/made-calls';
import { pageApp, type PageApp, type SignedInBrowser, withoutFooter } from '#support/page-app';
import { deadWebhook } from '#support/webhook-setup';
import { insertGroup } from '#server/db/groups';
import { insertInvitation } from '#server/db/invitations';
import { recordCalls } from '#server/db/rollups';
import type { Db } from '#server/db/transaction';
import { insertDomain } from '#server/db/organization-domains';
import { insertWebhook } from '#server/db/webhooks';
import { newestEvents } from '#support/newest-events';
import { insertSomeProvider } from '#support/some-provider';

/** The pages that a viewer may read; every other page of an organization requires more. */
const forViewers = [
  'GET ',
  'GET /live',
  'GET /search',
  'GET /servers',
  'GET /clients',
  'GET /applications',
  'GET /my-servers',
  'GET /servers/:server',
  'GET /servers/:server/clients',
  'GET /servers/:server/clients/:clientId',
  'GET /servers/:server/keys',
  'GET /servers/:server/keys/:keyId',
  'GET /servers/:server/tools',
  'GET /servers/:server/account',
  'GET /servers/:server/account/disconnect',
  'GET /activity',
  'GET /activity/export',
  'GET /activity/live',
];

/** Not found here: the name of the tool is missing from the query, and this server is no collection, so it has no members. */
const ofNamed = ['GET /servers/:server/tools/one', 'GET /servers/:server/members'];

/** A viewer may connect their own account at an upstream; where the upstream has no accounts, these routes redirect back. */
const ownOfViewers = [
  'POST /servers/:server/account',
  'GET /servers/:server/account/callback',
  'POST /servers/:server/account/disconnect',
  'POST /servers/:server/account/key',
  'POST /servers/:server/account/key/try',
];

/** Calls, grants and devices of other people, and access that nobody may request: not found for a viewer. */
const ofOthers = [
  'GET /activity/:callId',
  'POST /activity/:callId',
  ...['withdraw', 'allow', 'tools'].flatMap((action) =>
    ['GET', 'POST'].map((method) => `${method} /applications/:grantId/${action}`),
  ),
  ...['GET', 'POST'].map((method) => `${method} /applications/devices/:deviceId/sign-out`),
  ...['ask', 'ask/withdraw'].flatMap((page) =>
    ['GET', 'POST'].map((method) => `${method} /servers/:server/${page}`),
  ),
];

let app: PageApp;
let routes: string[];
let ids: Record<string, string>;
let agentKeyId: string;

beforeAll(async () => {
  app = await pageApp();
  const { stores, clock, client } = app.server;
  const ports = { db: stores.db, clock };
  const createdAt = clock.now();
  const made = { name: 'key', scopes: ['mcp:tools:read'], expiresAt: undefined } as const;
  const owner = { type: 'server', serverId: 'srv_sales' } as const;
  const key = await createKey({ ...made, owner }, ports);
  const newKey = await createKey({ ...made, owner }, ports);
  const agent = { id: 'agent_1', organizationId: 'org_acme', name: 'office', createdAt };
  await insertAgent(stores.db, agent);
  const agentOwner = { type: 'agent', agentId: 'agent_1' } as const;
  agentKeyId = (await createKey({ ...made, owner: agentOwner }, ports)).id;
  await app.server.redeem(await app.server.code());
  const [secret] = await listClientSecrets(stores.db, client.id);
  ids = {
    organization: 'acme',
    server: 'sales',
    clientId: client.id,
    keyId: key.id,
    newKeyId: newKey.id,
    secretId: secret?.id ?? '',
    agent: 'office',
    userId: 'user_mel',
    groupId: 'group_1',
    grantId: (await listGrantsOfPerson(stores.db, 'user_dana', createdAt))[0]?.id ?? '',
    deviceId: 'device_1',
    requestId: 'request_1',
    invitationId: 'invitation_1',
    webhookId: 'whk_1',
    providerId: 'idp_1',
    domain: 'acme.example',
    scimTokenId: 'scimtoken_1',
    resourceId: key.id,
    callId: await recordCall(stores.db, clock.now()),
  };
  await app.browser('user_mel', { organizationId: 'org_acme', role: 'member' });
  const group = { id: 'group_1', organizationId: 'org_acme', name: 'staff', createdAt };
  await insertGroup(stores.db, group);
  const expiresAt = createdAt + 3600;
  const invitation = { id: 'invitation_1', organizationId: 'org_acme', role: 'viewer' } as const;
  const words = { groupIds: [], note: '', createdBy: 'operator', tokenHash: 'hash' };
  await insertInvitation(stores.db, { ...invitation, ...words, createdAt, expiresAt });
  await requestOf(stores.db, { groupId: 'group_1', createdAt });
  const webhook = { id: 'whk_1', organizationId: 'org_acme', url: deadWebhook, actions: [] };
  await insertWebhook(stores.db, { ...webhook, sealedSecret: '', createdAt }, 10);
  await insertSomeProvider(stores.db, { id: 'idp_1', issuer: 'https://127.0.0.1:9', createdAt });
  const scimToken = {
    id: 'scimtoken_1',
    organizationId: 'org_acme',
    hash: 'h',
    hint: 'scim_…aaaa',
  };
  const ofOperator = { createdBy: 'operator', createdAt, expiresAt: undefined };
  await insertScimToken(stores.db, { ...scimToken, ...ofOperator }, { most: 2 });
  const domain = { organizationId: 'org_acme', domain: 'acme.example', verificationToken: 't' };
  await insertDomain(stores.db, { ...domain, createdAt }, 5);
  await insertOrganization(stores.db, { id: 'org_globex', name: 'globex', createdAt });
  const upstream = { kind: 'demo' } as const;
  const web = { id: 'srv_web', organizationId: 'org_globex', name: 'web', upstream, createdAt };
  await insertServer(stores.db, { ...web, targetId: 'target_web' });
  const mark = ' /dashboard/:organization';
  routes = [...app.reading, ...app.changing]
    .filter((route) => route.includes(mark))
    .map((route) => route.replace(mark, ' '));
});
afterAll(() => app[Symbol.asyncDispose]());

/** A server for a group, and the request of a member for it. */
async function requestOf(db: Db, at: { readonly groupId: string; readonly createdAt: number }) {
  const { groupId, createdAt } = at;
  const closed = { id: 'srv_closed', organizationId: 'org_acme', name: 'closed', createdAt };
  await insertServer(db, { ...closed, targetId: 'target_closed', upstream: { kind: 'demo' } });
  const choice = { access: 'groups', groupIds: [groupId], isRequestable: true } as const;
  await setServerAccess(db, closed.id, choice);
  const asked = { id: 'request_1', organizationId: 'org_acme', server: 'closed', reason: 'x' };
  await insertAccessRequest(db, { ...asked, userId: 'user_mel' }, createdAt);
}

/** Records a call of a member, and returns its id. */
async function recordCall(db: Db, now: number): Promise<string> {
  await recordActivity(db, (now - 60) * 1000, [{ userId: 'user_mel' }]);
  const { id } = await db.selectFrom('call_record').select('id').executeTakeFirstOrThrow();
  return id;
}

/** The path of a route, filled in with things of acme, except those in `but`. */
function pathOf(route: string, but: Record<string, string> = {}): string {
  const keys = route.includes('/agents/') ? { keyId: agentKeyId } : {};
  const values: Record<string, string> = { ...ids, ...keys, ...but };
  const path = `/dashboard/:organization${route.replace(/^\w+ /, '')}`;
  return path.replaceAll(/:(\w+)/g, (_, name: string) => values[name] ?? name);
}

async function ask(route: string, by: SignedInBrowser, but?: Record<string, string>) {
  const path = pathOf(route, but);
  if (route.startsWith('GET')) return app.get(path, by.cookie);
  const body = new URLSearchParams({ csrf_token: by.csrfToken, typed: 'sales' }).toString();
  return app.post({ path, cookie: by.cookie, body });
}

const kept = () => {
  const { connection } = app.server.stores;
  const kinds = ['endpoint', 'target', 'oauth_client', 'client_secret', 'api_key', 'agent'];
  const people = [
    'membership',
    'person_group',
    'group_member',
    'endpoint_group',
    'invitation',
    'access_request',
  ];
  const tables = [...kinds, ...people, 'group_mapping', 'oauth_grant', 'webhook'];
  tables.push('identity_provider', 'organization_domain', 'scim_token');
  return tables.map((name) => connection.prepare(`select * from "${name}"`).all());
};
const statuses = async (
  wanted: readonly string[],
  by: SignedInBrowser,
  but?: Record<string, string>,
) => {
  const seen: Record<string, number> = {};
  for (const route of wanted) seen[route] = (await ask(route, by, but)).status;
  return seen;
};
const all = (wanted: readonly string[], status: number) =>
  Object.fromEntries(wanted.map((route) => [route, status]));

describe('82: dashboard pages of an organization', () => {
  test('82: there are routes to check', () => {
    expect(routes.length).toBeGreaterThan(40);
    const named = [...forViewers, ...ownOfViewers, ...ofOthers, ...ofNamed];
    expect(named.filter((route) => !routes.includes(route))).toEqual([]);
  });

  test('82: for a person of another organization none exists, and nothing changes', async () => {
    const eve = await app.browser('user_eve', { organizationId: 'org_globex', role: 'owner' });
    const before = kept();

    const seen = await statuses(routes, eve);
    const known = await ask('GET /servers', eve);
    const unknown = await ask('GET /servers', eve, { organization: 'nobody-has-this' });

    expect(seen).toEqual(all(routes, 404));
    expect(kept()).toEqual(before);
    expect(withoutFooter(known.text)).toBe(withoutFooter(unknown.text));
  });

  test('82: in one’s own organization, ids of another one are not found', async () => {
    const eve = await app.browser('user_mallory', { organizationId: 'org_globex', role: 'owner' });
    const before = kept();
    const named = routes.filter((route) => /:\w+/.test(route));
    const ofServer = named.filter((route) => /:server\/.*:\w+/.test(route));

    const theirs = await statuses(named, eve, { organization: 'globex' });
    const mixed = await statuses(ofServer, eve, { organization: 'globex', server: 'web' });

    expect(theirs).toEqual(all(named, 404));
    expect(ofServer.length).toBeGreaterThan(8);
    expect(mixed).toEqual(all(ofServer, 404));
    expect(kept()).toEqual(before);
  });

  test('82: ids of another organization in the query are not found either', async () => {
    const eve = await app.browser('user_quinn', { organizationId: 'org_globex', role: 'owner' });
    const dana = await app.browser('user_dee', { organizationId: 'org_acme', role: 'admin' });
    const [serverId, at] = ['srv_sales', app.server.clock.now()];
    const counts = { bucket: 1, calls: 1, toolErrors: 0, refused: 0, upstreamErrors: 0 };
    const subjects = [
      ['server', serverId],
      ['client', ids['clientId'] ?? ''],
      ['key', ids['keyId'] ?? ''],
      ['person', dana.userId],
      ['tool', 'query'],
    ] as const;
    const wanted = (organization: string) =>
      subjects.flatMap(([kind, subject]) =>
        ['/usage', '/usage.csv'].map(
          (page) => `/dashboard/${organization}${page}?by=${kind}&server=${serverId}&of=${subject}`,
        ),
      );
    const asked = async (organization: string, by: SignedInBrowser) => {
      const answers = wanted(organization).map((path) => app.get(path, by.cookie));
      return (await Promise.all(answers)).map(({ status }) => status);
    };

    const uncalled = await asked('acme', dana);
    await recordCalls(
      app.server.stores.db,
      subjects.map(([kind, subject]) =>
        Object.assign({ at, serverId, targetId: 'target', kind, subject }, counts),
      ),
    );

    expect(uncalled).toEqual(uncalled.map(() => 404));
    expect(await asked('acme', dana)).toEqual(uncalled.map(() => 200));
    expect(await asked('globex', eve)).toEqual(uncalled.map(() => 404));
  });

  test('82: a viewer gets the page that the role does not allow it, and this is audited', async () => {
    const vic = await app.browser('user_vic', { organizationId: 'org_acme', role: 'viewer' });
    const before = kept();
    const allowed = new Set([...forViewers, ...ownOfViewers, ...ofOthers, ...ofNamed]);
    const refused = routes.filter((route) => !allowed.has(route));
    // Without the open stream, because its answer does not end.
    const shown = forViewers.filter((route) => !/ $|\/live$/.test(route));

    const seen = await statuses(refused, vic);
    const looked = await statuses(shown, vic);
    const led = await statuses(ownOfViewers, vic);
    const hidden = await statuses([...ofOthers, ...ofNamed], vic);
    const noted = await newestEvents(app.server.stores.db, 1000);

    expect(seen).toEqual(all(refused, 403));
    expect(looked).toEqual(all(shown, 200));
    expect(led).toEqual(all(ownOfViewers, 303));
    expect(hidden).toEqual(all([...ofOthers, ...ofNamed], 404));
    expect(kept()).toEqual(before);
    const refusals = noted.filter(
      ({ actor, outcome }) => actor === 'user:user_vic' && outcome === 'refused',
    );
    expect(refusals.length).toBe(refused.length);
  });

  test('82: a person who is signed out is sent to the sign-in page, and then back', async () => {
    const nobody = { userId: '', sessionId: '', cookie: '', csrfToken: '' };

    const seen = await statuses(routes, nobody);
    const { location } = await ask('GET /servers/:server', nobody);

    expect(seen).toEqual(all(routes, 303));
    expect(location).toBe('/sign-in?next=%2Fdashboard%2Facme%2Fservers%2Fsales');
  });

  test('86: a new secret is shown in the response that creates it, and on no later page', async () => {
    const owner = await app.browser('user_owner', { organizationId: 'org_acme', role: 'owner' });
    const send = (path: string, fields: Record<string, string>) => {
      const body = new URLSearchParams({ csrf_token: owner.csrfToken, ...fields }).toString();
      return app.post({ path: `/dashboard/acme${path}`, cookie: owner.cookie, body });
    };
    const scopes = { 'scopes.mcp:tools:read': 'mcp:tools:read' };
    const answers = [
      await send('/servers/sales/new-key', { name: 'once', ...scopes }),
      await send('/servers/sales/new-client', { name: 'once', ...scopes }),
      await send('/new-agent', { name: 'once' }),
      await send(`/servers/sales/keys/${ids['keyId']}/rotate`, {}),
      await send(`/servers/sales/clients/${ids['clientId']}/rotate`, {}),
      await send('/agents/once/rotate', {}),
      await send('/settings/webhooks', { url: deadWebhook }),
      await send('/settings/webhooks/whk_1/rotate', {}),
    ];
    const secrets = answers.map(
      ({ text }) =>
        /(?:mcp|secret|pk_live)_[0-9A-Za-z]{36}|whsec_[\w+/]{43}=/.exec(text)?.[0] ?? 'none',
    );
    const links = answers.flatMap(({ text }) =>
      [...text.matchAll(/(?:href|action|hx-get)="([^"]+)"/g)].map((match) => match[1] ?? ''),
    );
    const pages = [
      '/servers/sales',
      '/servers/sales/keys',
      '/servers/sales/clients',
      '/agents/once',
      '/settings/webhooks',
      '/settings/webhooks/whk_1',
    ];
    const after: string[] = [];
    for (const page of pages) {
      after.push((await app.get(`/dashboard/acme${page}`, owner.cookie)).text);
    }

    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(new Set(secrets).size).toBe(8);
    expect(secrets).not.toContain('none');
    for (const secret of secrets) {
      expect(after.filter((text) => text.includes(secret))).toEqual([]);
      expect(links.filter((link) => link.includes(secret))).toEqual([]);
    }
    const hint = secrets[0]?.slice(-4) ?? '';
    expect(after[1]).toContain(`mcp_…${hint}`);
  });
});
