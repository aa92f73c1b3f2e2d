import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertClient, updateClient } from '#server/db/clients';
import { findGrant, listGrantsOfPerson } from '#server/db/grants';
import { insertGroup } from '#server/db/groups';
import { changeToolRules } from '#server/db/tool-rules';
import { listAuditEvents } from '#server/db/audit';
import { allScopes } from '#server/model/scopes';
import { readingWords } from '#server/web/usable-tools';
import { hiddenFields } from '#support/granting-server';
import { pkcePair } from '#support/authorization-server';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const { challenge, verifier } = pkcePair();
const redirectUri = 'https://app.example/cb';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
  const { stores, clock } = app.server;
  const { db } = stores;
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
      { kind: 'tool', name: 'update', audience: 'everyone' },
      { kind: 'prompt', name: 'summary', audience: 'everyone' },
    ],
  });
  await insertClient(db, {
    id: 'client_app',
    name: 'App',
    serverId: 'srv_sales',
    scopes: allScopes,
    redirectUris: [redirectUri],
    jwks: undefined,
    authenticationRequired: false,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: clock.now(),
  });
});
afterAll(() => app[Symbol.asyncDispose]());

const asked = (scope = 'mcp:tools:read mcp:tools:execute') =>
  `/oauth/consent?${new URLSearchParams({
    client_id: 'client_app',
    response_type: 'code',
    redirect_uri: redirectUri,
    code_challenge: challenge,
    code_challenge_method: 'S256',
    scope,
  }).toString()}`;

const decide = async (
  { cookie, csrfToken }: SignedInBrowser,
  typed: Readonly<Record<string, string>>,
  page = '',
) => {
  const text = page || (await app.get(asked(), cookie)).text;
  const { request = '' } = hiddenFields(text, '/oauth/consent');
  const fields = { request, csrf_token: csrfToken, again: asked(), ...typed };
  const body = new URLSearchParams(fields).toString();
  return app.post({ path: '/oauth/consent', cookie, body });
};
const grantBy = async (browser: SignedInBrowser, typed: Readonly<Record<string, string>>) => {
  const { location } = await decide(browser, typed);
  const code = new URL(location ?? 'none:').searchParams.get('code') ?? '';
  await app.server.redeem(
    { code, verifier },
    { client_id: 'client_app', redirect_uri: redirectUri },
  );
  const { db } = app.server.stores;
  const [grant] = await listGrantsOfPerson(db, browser.userId, app.server.clock.now());
  return grant;
};

test('consent page: it offers to allow only reading, and the tools that the person can use', async () => {
  const { cookie } = await app.browser('dora');
  const { text } = await app.get(asked(), cookie);

  expect(text).toContain('value="read-only">Allow only reading</button>');
  expect(text).toContain('No tool that you can use is accepted as read-only yet');
  expect(text).toContain('name="tools.tool.search"');
  expect(text).toContain('name="tools.prompt.summary"');
  expect(text).not.toContain('refund');
});

test.each([
  [2, 1, 'Tools that an administrator has accepted as read-only (now 1 of the 2'],
  [2, 0, 'No tool that you can use is accepted as read-only yet'],
  [0, 0, 'Which these are is not known yet.'],
])(
  'consent page: of %i tools, %i only read, and it says what that means',
  (tools, reading, words) => {
    const items = Array.from({ length: tools }, (_, at) => ({
      kind: 'tool' as const,
      name: `tool-${at}`,
      badges: [],
    }));

    expect(readingWords({ items, reading })).toContain(words);
  },
);

test('consent page: pressing Enter while choosing tools submits the chosen ones', async () => {
  const { cookie } = await app.browser('enid');
  const { text } = await app.get(asked(), cookie);
  const form = text.split('<form').find((one) => one.includes('name="tools.tool.search"'));
  const [first] = /<button[^>]*value="[^"]*"/.exec(form ?? '') ?? [];

  expect(first).toContain('value="chosen"');
});

test('consent page: an application that asks for no tools has nothing to limit', async () => {
  const { cookie } = await app.browser('nina');
  const { text } = await app.get(asked('mcp:resources:read'), cookie);

  expect(text).toContain('value="allow">Allow</button>');
  expect(text).not.toContain('Allow only reading');
});

test('consent: what the person allowed is kept with the grant', async () => {
  const all = await grantBy(await app.browser('al'), { decision: 'allow' });
  const reading = await grantBy(await app.browser('rita'), { decision: 'read-only' });
  const chosen = await grantBy(await app.browser('chloe'), {
    decision: 'chosen',
    'tools.tool.search': 'on',
    'tools.prompt.summary': 'on',
  });

  expect(all?.tools).toEqual({ type: 'all' });
  expect(reading?.tools).toEqual({ type: 'read-only' });
  expect(chosen?.tools).toEqual({
    type: 'chosen',
    tools: ['search'],
    prompts: ['summary'],
    resources: [],
  });
});

test('consent: who allows only reading does not allow to administer the server', async () => {
  const olga = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const scope = 'mcp:tools:execute mcp:server:manage';
  const { text } = await app.get(asked(scope), olga.cookie);
  const { location } = await decide(olga, { decision: 'read-only' }, text);
  const code = new URL(location ?? 'none:').searchParams.get('code') ?? '';
  await app.server.redeem(
    { code, verifier },
    { client_id: 'client_app', redirect_uri: redirectUri },
  );
  const { db } = app.server.stores;
  const [grant] = await listGrantsOfPerson(db, 'olga', app.server.clock.now());

  expect(grant?.scopes).toEqual(['mcp:tools:execute']);
});

test('consent: without any tool chosen, the page asks again, and nothing is allowed', async () => {
  const noah = await app.browser('noah');
  const { status, text } = await decide(noah, { decision: 'chosen' });
  const later = await decide(noah, { decision: 'chosen', 'tools.tool.update': 'on' }, text);

  expect(status).toBe(422);
  expect(text).toMatch(
    /<details class="other" open>[^]*Choose at least one, or allow only reading/,
  );
  expect(later.location).toMatch(/^https:\/\/app\.example\/cb\?code=/);
});

test('consent: without any tool chosen, a page of another site is not shown', async () => {
  const { location } = await decide(await app.browser('nils'), {
    decision: 'chosen',
    again: 'https://evil.example/oauth/consent?',
  });

  expect(location).toMatch(/^https:\/\/app\.example\/cb\?error=access_denied/);
});

test('consent: an answer that is none of the page’s is a refusal', async () => {
  const { location } = await decide(await app.browser('otto'), { decision: 'everything' });

  expect(location).toContain('error=access_denied');
});

test('my applications: a person narrows a grant and widens it, and the audit log records both', async () => {
  const mia = await app.browser('mia');
  const { id = '' } = (await grantBy(mia, { decision: 'allow' })) ?? {};
  const path = `/dashboard/acme/applications/${id}/tools`;
  const { db } = app.server.stores;
  const save = async (typed: Record<string, string>) => {
    const body = new URLSearchParams({ csrf_token: mia.csrfToken, ...typed }).toString();
    const answer = await app.post({ path, cookie: mia.cookie, body });
    return { ...answer, tools: (await findGrant(db, id))?.tools };
  };
  const narrowed = await save({ tools: 'chosen', 'tools.tool.search': 'on' });
  const list = await app.get('/dashboard/acme/applications', mia.cookie);
  const account = await app.get('/account', mia.cookie);
  const widened = await save({ tools: 'all' });
  const events = await listAuditEvents(db, {
    organization: 'acme',
    action: 'grant.update',
    limit: 9,
  });

  expect(narrowed.location).toBe('/dashboard/acme/applications?done=tools');
  expect(narrowed.tools).toMatchObject({ type: 'chosen', tools: ['search'] });
  expect(list.text).toMatch(new RegExp(`Only 1 tool[^]*href="${path}"`));
  expect(account.text).toMatch(new RegExp(`Only 1 tool[^]*href="${path}"`));
  expect(widened.tools).toEqual({ type: 'all' });
  expect(events.map(({ target, actor }) => [target, actor])).toEqual([
    [id, 'user:mia'],
    [id, 'user:mia'],
  ]);
});

test('my applications: an application gets nothing that its person cannot use', async () => {
  const finn = await app.browser('finn');
  const { id = '' } = (await grantBy(finn, { decision: 'read-only' })) ?? {};
  const path = `/dashboard/acme/applications/${id}/tools`;
  const typed = { tools: 'chosen', 'tools.tool.refund': 'on', 'tools.tool.search': 'on' };
  const body = new URLSearchParams({ csrf_token: finn.csrfToken, ...typed }).toString();
  const { status, text } = await app.post({ path, cookie: finn.cookie, body });
  const grant = await findGrant(app.server.stores.db, id);

  expect(status).toBe(422);
  expect(text).toContain('You cannot use refund yourself, so no application can for you.');
  expect(grant?.tools).toEqual({ type: 'read-only' });
});

test('my applications: the grant of another person is not found', async () => {
  const { id = '' } = (await grantBy(await app.browser('gwen'), { decision: 'allow' })) ?? {};
  const hugo = await app.browser('hugo');
  const path = `/dashboard/acme/applications/${id}/tools`;
  const body = new URLSearchParams({ csrf_token: hugo.csrfToken, tools: 'all' }).toString();
  const [shown, changed] = [
    await app.get(path, hugo.cookie),
    await app.post({ path, cookie: hugo.cookie, body }),
  ];

  expect([shown.status, changed.status]).toEqual([404, 404]);
});

test('consent page: what an administrator took from the application is not offered', async () => {
  const { db } = app.server.stores;
  const { cookie } = await app.browser('ines');
  await updateClient(db, 'client_app', {
    tools: { type: 'chosen', tools: ['update'], prompts: [], resources: [] },
  });
  const { text } = await app.get(asked(), cookie);

  expect(text).toContain('name="tools.tool.update"');
  expect(text).not.toContain('name="tools.tool.search"');
});
