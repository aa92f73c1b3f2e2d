import { afterAll, beforeAll, expect, test } from 'vitest';

import { type AdministrationPorts, operator, perform } from '#server/admin/operation';
import { keyCreate, keyList, keyRevoke } from '#server/admin/keys';
import { everyRefusal } from '#server/audit/counted-refusals';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp } from '#support/page-app';
import { loopbackSetup } from '#support/upstream-setup';
import { loopbackProviders } from '#support/provider-setup';
import { loopbackMail } from '#support/mail-setup';
import { loopbackWebhooks } from '#support/webhook-setup';
import { masterKey } from '#server/secrets/master-key';

const keys = '/dashboard/acme/servers/sales/keys';

let app: PageApp;
let key: { readonly id: string; readonly key: string };
let ports: AdministrationPorts;
beforeAll(async () => {
  app = await pageApp();
  const { stores, clock } = app.server;
  const refusals = everyRefusal({ ...stores, clock });
  ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock),
    contentKey: masterKey(new Uint8Array(32)),
  };
  const scopes = ['mcp:tools:read', 'mcp:tools:execute'];
  const input = { organization: 'acme', server: 'sales', name: 'nightly', scopes };
  key = await perform(keyCreate, input, operator, ports);
});
afterAll(() => app[Symbol.asyncDispose]());

test('key list: a key links to its page with its scopes and the id that the audit log has', async () => {
  const { cookie } = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });

  const list = await app.get(keys, cookie);
  const { status, text } = await app.get(`${keys}/${key.id}`, cookie);

  expect(list.text).toContain(`<a href="${keys}/${key.id}"`);
  expect(status).toBe(200);
  expect(text).toContain(`<code>${key.id}</code>`);
  expect(text).toMatch(/See which tools the server has[\s\S]*Use those tools[\s\S]*Sensitive/);
  expect(text).not.toContain('Read the documents');
  expect(text).toContain(`href="${keys}/${key.id}/rotate"`);
  expect(text).not.toContain(key.key);
});

test('key page: a viewer sees it without anything to change', async () => {
  const { cookie } = await app.browser('vera', { organizationId: 'org_acme', role: 'viewer' });

  const { status, text } = await app.get(`${keys}/${key.id}`, cookie);

  expect(status).toBe(200);
  expect(text).not.toMatch(/\/rotate"|\/revoke"/);
});

test('key page: a key of another server is not found', async () => {
  const { cookie } = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });

  const { status } = await app.get(`/dashboard/acme/servers/other/keys/${key.id}`, cookie);

  expect(status).toBe(404);
});

test('key form: errors are beside the entered values, and nothing is created', async () => {
  const { cookie, csrfToken } = await app.browser('ada', {
    organizationId: 'org_acme',
    role: 'admin',
  });
  const path = '/dashboard/acme/servers/sales/new-key';
  const entered = { name: ' ', 'scopes.mcp:tools:read': 'mcp:tools:read', expiry: '90' };
  const body = new URLSearchParams({ csrf_token: csrfToken, ...entered }).toString();
  const before = await app.get(keys, cookie);

  const { status, text } = await app.post({ path, cookie, body });

  expect(status).toBe(422);
  expect(text).toContain('<title>Not generated yet');
  expect(text).toContain('<p class="error" id="name-error">The name is empty.</p>');
  expect(text).toMatch(/value="mcp:tools:read"[^>]* checked>/);
  expect(text).not.toMatch(/value="mcp:tools:execute"[^>]* checked>/);
  expect(text).toContain('<option value="90" selected>In 90 days</option>');
  expect((await app.get(keys, cookie)).text.match(/data-row/g)).toEqual(
    before.text.match(/data-row/g),
  );
});

test('key form: at first it offers the usual scopes and 90 days', async () => {
  const { cookie } = await app.browser('abel', { organizationId: 'org_acme', role: 'admin' });

  const { text } = await app.get('/dashboard/acme/servers/sales/new-key', cookie);

  expect(text).toMatch(/id="name" name="name"[^>]* autofocus/);
  expect(text.match(/value="mcp:[a-z:]+"[^>]* checked>/g)).toHaveLength(4);
  expect(text).toContain('<option value="90" selected>In 90 days</option>');
  expect(text.match(/<option value="(30|90|365|date|)"/g)).toHaveLength(5);
});

test('key rotation page: it shows a key that replaces the old one, as the audit log says', async () => {
  const { cookie, csrfToken } = await app.browser('amy', {
    organizationId: 'org_acme',
    role: 'admin',
  });
  const path = `${keys}/${key.id}/rotate`;
  const body = new URLSearchParams({ csrf_token: csrfToken }).toString();

  const { status, text } = await app.post({ path, cookie, body });
  const [event] = await newestEvents(app.server.stores.db, 1);

  expect(status).toBe(200);
  expect(text).toMatch(/mcp_[0-9A-Za-z]{36}/);
  expect(event).toMatchObject({
    action: 'key.rotate',
    target: expect.stringMatching(new RegExp(`^key:${key.id}/key_`)),
  });
});

/** Sends the form for a new key. */
async function generate(name: string, entered: Readonly<Record<string, string>>) {
  const { cookie, csrfToken } = await app.browser(`user_${name}`, {
    organizationId: 'org_acme',
    role: 'admin',
  });
  const path = '/dashboard/acme/servers/sales/new-key';
  const fields = { csrf_token: csrfToken, name, 'scopes.mcp:tools:read': 'mcp:tools:read' };
  const body = new URLSearchParams({ ...fields, ...entered }).toString();
  const answer = await app.post({ path, cookie, body });
  const { items } = await listKeysOf('acme');
  return { ...answer, cookie, csrfToken, made: items.find((one) => one.name === name) };
}

const listKeysOf = (organization: string) => perform(keyList, { organization }, operator, ports);

test.each([
  ['ninety', { expiry: '90' }, 90 * 86_400],
  ['never', { expiry: '' }, null],
])('key form: a key that expires after %s', async (name, entered, seconds) => {
  const { made } = await generate(name, entered);

  expect(made?.expiresAt ?? null).toBe(seconds && (made?.createdAt ?? 0) + seconds);
});

test('key form: a key that expires on a date works until the end of that day', async () => {
  const now = app.server.clock.now();
  const start = now - (now % 86_400) + 10 * 86_400;
  const day = new Date(start * 1000).toISOString().slice(0, 10);

  const { made } = await generate('dated', { expiry: 'date', expiresOn: day });

  expect(made?.expiresAt).toBe(start + 86_400);
});

test.each([
  ['empty', ''],
  ['past', '2001-01-01'],
  ['far', '9999-01-01'],
])('key form: with the date %s, no key is made', async (name, expiresOn) => {
  const { status, text, made } = await generate(name, { expiry: 'date', expiresOn });

  expect(status).toBe(422);
  expect(text).toContain('id="expiresOn-error"');
  expect(made).toBeUndefined();
});

test('key list: scopes and creator stand beside a key, and a rotation names the old key and the new one', async () => {
  const { cookie, csrfToken, made } = await generate('rotated', { expiry: '90' });
  const path = `${keys}/${made?.id}/rotate`;
  const body = new URLSearchParams({ csrf_token: csrfToken }).toString();
  const before = await app.get(keys, cookie);
  await app.post({ path, cookie, body });
  const { items } = await listKeysOf('acme');
  const next = items.find(({ name, id }) => name === 'rotated' && id !== made?.id);

  const during = await app.get(keys, cookie);
  await perform(keyRevoke, { organization: 'acme', keyId: made?.id }, operator, ports);
  const after = await app.get(keys, cookie);
  const rowOf = (text: string, id = '') => text.split(`<tr id="row-${id}"`)[1]?.split('</tr>')[0];

  expect(rowOf(before.text, made?.id)).not.toContain('Rotating');
  expect(rowOf(before.text, made?.id)).toContain('tools:read');
  expect(rowOf(before.text, made?.id)).toContain('user_rotated@');
  expect(rowOf(during.text, made?.id)).toContain('Rotating: old key');
  expect(rowOf(during.text, made?.id)).toContain(`Replaced by ${next?.hint}.`);
  expect(rowOf(during.text, next?.id)).toContain('Rotating: new key');
  expect(rowOf(during.text, next?.id)).toContain(`Replaces ${made?.hint}.`);
  expect(rowOf(after.text, next?.id)).not.toContain('Rotating');
});
