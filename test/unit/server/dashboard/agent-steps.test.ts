import { afterAll, beforeAll, expect, test } from 'vitest';

import { operator } from '#server/administration/actor';
import { agentCreate } from '#server/administration/agent-operations';
import { perform } from '#server/administration/perform';
import { serverCreate } from '#server/administration/server-operations';
import { everyRefusal } from '#server/audit/every-refusal';
import { handedOut, pageApp, type PageApp } from '#support/page-app';
import { loopbackSetup } from '#support/upstream-setup';
import { loopbackWebhooks } from '#support/webhook-setup';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const plain = (html: string) => html.replaceAll('&quot;', '"').replaceAll('&#39;', "'");

test('the page that shows the key of a new agent says how it comes to run, at this server', async () => {
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

test('the page of an agent that is away says the same to who looks after it, with the servers bound to it', async () => {
  const { stores, clock } = app.server;
  const refusals = everyRefusal({ ...stores, clock });
  const ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
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
  const looked = (await app.get(page, viewer.cookie)).text;

  expect(shown).toContain('Run it');
  expect(shown).toContain('"stock": {');
  expect(looked).toContain('stock');
  expect(looked).not.toContain('latchkey agent');
});
