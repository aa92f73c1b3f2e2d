import { afterAll, beforeAll, expect, test } from 'vitest';

import { updateServer } from '#server/db/servers';
import { pageApp, type PageApp } from '#support/page-app';

const path = '/dashboard/acme/servers/sales';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('disabled server: its page says so, and where people who may can enable it', async () => {
  const olga = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const vic = await app.browser('vic', { organizationId: 'org_acme', role: 'viewer' });
  const before = await app.get(path, olga.cookie);
  const { stores, clock } = app.server;
  await updateServer(stores.db, 'srv_sales', { disabledAt: clock.now() });

  const owner = await app.get(path, olga.cookie);
  const viewer = await app.get(path, vic.cookie);
  const settings = await app.get(`${path}/settings`, olga.cookie);
  const question = await app.get(`${path}/enable`, olga.cookie);

  expect(before.text).not.toContain('answers no calls');
  expect(owner.text).toContain(`answers no calls. Enable it under <a href="${path}/settings">`);
  expect(viewer.text).toContain('answers no calls. Ask an owner or an admin to enable it.');
  expect(settings.text).toContain(`<a class="button" href="${path}/enable" data-question>`);
  expect(question.text).toContain('<button class="primary">Enable the server</button>');
});
