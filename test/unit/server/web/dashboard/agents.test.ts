import { afterAll, beforeAll, expect, test } from 'vitest';

import { operator, perform } from '#server/admin/operation';
import { agentCreate } from '#server/admin/agents';
import { serverCreate } from '#server/admin/servers';
import { everyRefusal } from '#server/audit/counted-refusals';
import { offlineAgent } from '#server/upstreams/tunnel/connected-agent';
import { agentFacts } from '#server/web/dashboard/agents';
import { agentBadge } from '#server/web/dashboard/health';
import { changesWithHealth } from '#server/web/dashboard/live';
import { handedOut, pageApp, type PageApp } from '#support/page-app';
import { loopbackSetup } from '#support/upstream-setup';
import { loopbackProviders } from '#support/provider-setup';
import { loopbackMail } from '#support/mail-setup';
import { loopbackWebhooks } from '#support/webhook-setup';
import { masterKey } from '#server/secrets/master-key';

const here = {
  ...offlineAgent,
  isOnline: true,
  tunnels: 1,
  versions: ['0.1.0'],
  servers: [
    { name: 'hr', kind: 'http' },
    { name: 'sales', kind: 'stdio' },
  ],
};

test('agent: it waits until its first connection, and is offline after its last', () => {
  const fresh = { lastUsedAt: null, revokedAt: null, suspended: false };
  const used = { ...fresh, lastUsedAt: 1_700_000_000 };
  const words = [
    agentBadge(fresh, offlineAgent),
    agentBadge(fresh, here),
    agentBadge(used, offlineAgent),
    agentBadge({ ...used, revokedAt: 1_700_000_001, suspended: false }, offlineAgent),
  ].map(({ text }) => text);

  expect(words).toEqual(['Waiting for agent…', 'Connected', 'Offline', 'Revoked']);
});

test('agent: several connections are counted', () => {
  const facts = agentFacts({ ...here, tunnels: 3 }, ['hr', 'sales']);

  expect(facts).toContainEqual({ label: 'Connections', text: '3' });
});

test('agent: its facts show active calls, further servers it offers, and its last error', () => {
  const presence = {
    ...here,
    activeCalls: 2,
    waiting: 1,
    listening: 3,
    calls: 10,
    failed: 1,
    lastError: { at: 1_700_000_000, message: 'unreachable: port 3000' },
  };
  const facts = agentFacts(presence, ['sales']).map(({ label, text }) => `${label}: ${text}`);

  expect(facts).toEqual([
    'Version: 0.1.0',
    'Calls in progress: 2, 1 waiting, 3 open streams',
    'Configured but not used: hr',
    'Calls since this server started: 10, 1 failed',
    'Last error: unreachable: port 3000',
    'Last error at: undefined',
  ]);
});

test('agent: a change renews the live pages of its organization, and not those of one server', async () => {
  let revision = 1;
  const store = {
    changeToken: () => 'w',
    newestChangeToken: async () => 'w',
    stateOf: async () => 's',
  };
  const changes = changesWithHealth(store, [{ revision: () => revision }]);
  const look = async () => [
    changes.changeToken(),
    await changes.stateOf('acme', undefined),
    await changes.stateOf('acme', 'sales'),
  ];
  const before = await look();
  revision = 2;
  const after = await look();

  expect(before.map((text, index) => text === after[index])).toEqual([false, false, true]);
});

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const plain = (html: string) => html.replaceAll('&quot;', '"').replaceAll('&#39;', "'");

test('new agent: the page that shows its key explains how to run it with this server', async () => {
  const { cookie, csrfToken } = await app.browser('olga', {
    organizationId: 'org_acme',
    role: 'owner',
  });
  const body = new URLSearchParams({ csrf_token: csrfToken, name: 'berlin' }).toString();

  const { text } = await app.post({ path: '/dashboard/acme/new-agent', cookie, body });

  const at = `--server-url ${app.server.base}`;
  const copy = `"${app.server.base}/download/${handedOut.fileName}?v=${handedOut.sha256.slice(0, 16)}"`;
  const shown = plain(text);
  expect(shown).toContain(`npx -y ${copy} agent login ${at}`);
  expect(shown).toContain(`npx -y ${copy} agent ${at} --config agent.json`);
  expect(shown).toContain(`npm install --global ${copy}\nlatchkey agent install --user ${at}`);
  expect(plain(text)).toContain('"url": "http://127.0.0.1:3000/mcp"');
});

test('offline agent: its page explains to administrators how to run it, with the servers bound to it', async () => {
  const { stores, clock } = app.server;
  const refusals = everyRefusal({ ...stores, clock });
  const ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock),
    contentKey: masterKey(new Uint8Array(32)),
  };
  const agent = 'oslo';
  await perform(agentCreate, { organization: 'acme', name: agent }, operator, ports);
  const upstream = { kind: 'agent', agent };
  const bound = { organization: 'acme', name: 'stock', upstream };
  await perform(serverCreate, bound, operator, ports);
  const admin = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });
  const viewer = await app.browser('vera', { organizationId: 'org_acme', role: 'viewer' });
  const page = '/dashboard/acme/agents/oslo';

  const shown = plain((await app.get(page, admin.cookie)).text);
  const looked = await app.get(page, viewer.cookie);

  expect(shown).toContain('Start the agent');
  expect(shown).toContain('"stock": {');
  expect(looked.status).toBe(403);
  expect(looked.text).not.toContain('stock');
});

test('new agent: a link for a server fills in its name, its address and the form of that server', async () => {
  const { cookie, csrfToken } = await app.browser('olaf', {
    organizationId: 'org_acme',
    role: 'owner',
  });
  const url = 'http://10.0.0.5:3000/mcp';
  const path = `/dashboard/acme/new-agent?${new URLSearchParams({ server: 'inside', url }).toString()}`;
  const form = await app.get(path, cookie);
  const action = /<form method="post" action="([^"]*new-agent[^"]*)"/.exec(form.text)?.[1] ?? '';
  const body = new URLSearchParams({ csrf_token: csrfToken, name: 'inside' }).toString();
  const made = await app.post({ path: action.replaceAll('&amp;', '&'), cookie, body });
  const page = await app.get('/dashboard/acme/agents/inside?done=made&server=inside', cookie);

  expect(form.text).toContain('name="name" type="text" value="inside"');
  expect(plain(made.text)).toContain(`"inside": {\n      "url": "${url}"`);
  expect(made.text).toContain('/dashboard/acme/agents/inside?done=made&amp;server=inside');
  expect(page.text).toContain('/new-server?kind=agent&amp;agent=inside&amp;name=inside"');
});
