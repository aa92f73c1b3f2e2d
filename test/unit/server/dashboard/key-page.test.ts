import { afterAll, beforeAll, expect, test } from 'vitest';

import { operator } from '#server/administration/actor';
import { keyCreate } from '#server/administration/key-operations';
import { perform } from '#server/administration/perform';
import { everyRefusal } from '#server/audit/every-refusal';
import { pageApp, type PageApp } from '#support/page-app';
import { loopbackSetup } from '#support/upstream-setup';
import { loopbackWebhooks } from '#support/webhook-setup';

const keys = '/dashboard/acme/servers/sales/keys';

let app: PageApp;
let key: { readonly id: string; readonly key: string };
beforeAll(async () => {
  app = await pageApp();
  const { stores, clock } = app.server;
  const refusals = everyRefusal({ ...stores, clock });
  const ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
  };
  const scopes = ['mcp:tools:read', 'mcp:tools:execute'];
  const input = { organization: 'acme', server: 'sales', name: 'nightly', scopes };
  key = await perform(keyCreate, input, operator, ports);
});
afterAll(() => app[Symbol.asyncDispose]());

test('a key of the list leads to what it may do, and to its id, which the audit log has', async () => {
  const { cookie } = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });

  const list = await app.get(keys, cookie);
  const { status, text } = await app.get(`${keys}/${key.id}`, cookie);

  expect(list.text).toContain(`<a href="${keys}/${key.id}"`);
  expect(status).toBe(200);
  expect(text).toContain(`<code>${key.id}</code>`);
  expect(text).toMatch(/See which tools the server has[\s\S]*Use those tools[\s\S]*take care/);
  expect(text).not.toContain('Read the documents');
  expect(text).toContain(`href="${keys}/${key.id}/rotate"`);
  expect(text).not.toContain(key.key);
});

test('a viewer sees the page and nothing to change there', async () => {
  const { cookie } = await app.browser('vera', { organizationId: 'org_acme', role: 'viewer' });

  const { status, text } = await app.get(`${keys}/${key.id}`, cookie);

  expect(status).toBe(200);
  expect(text).not.toMatch(/\/rotate"|\/revoke"/);
});

test('the page of a key that another server has is not there', async () => {
  const { cookie } = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });

  const { status } = await app.get(`/dashboard/acme/servers/other/keys/${key.id}`, cookie);

  expect(status).toBe(404);
});
