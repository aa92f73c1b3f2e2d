import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertClient } from '#server/db/clients';
import { setOrganizationTitle } from '#server/db/organizations';
import { updateServer } from '#server/db/servers';
import { ordinaryScopes } from '#server/model/scopes';
import { applicationName } from '#server/web/consent';
import { hiddenFields } from '#support/granting-server';
import { pkcePair } from '#support/authorization-server';
import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const { challenge, verifier } = pkcePair();
const claim = 'The application gave this name; Latchkey cannot verify it.';

const asked = (but: Readonly<Record<string, string>>) => {
  const { base } = app.server;
  const query = new URLSearchParams({
    client_id: `${base}/oauth/clients/latchkey.json`,
    response_type: 'code',
    redirect_uri: 'http://127.0.0.1:49152/callback',
    code_challenge: challenge,
    code_challenge_method: 'S256',
    resource: `${base}/mcp/acme/sales`,
    ...but,
  });
  return `/oauth/consent?${query.toString()}`;
};

test('consent page: it names the assistant that the proxy works for, as a claim', async () => {
  const { cookie } = await app.browser('nina');

  const { status, text } = await app.get(asked({ assistant: 'Claude Desktop' }), cookie);

  expect(status).toBe(200);
  expect(text).toContain(
    '<h1>Connect <bdi>Claude Desktop</bdi> (via Latchkey) to <bdi>sales</bdi>?</h1>',
  );
  expect(text).toContain('<title>Connect Claude Desktop (via Latchkey)? · Latchkey</title>');
  expect(text).toContain(claim);
});

test('consent page: without an assistant, it names our proxy, which claims nothing', async () => {
  const { cookie } = await app.browser('nora');

  const { text } = await app.get(asked({}), cookie);

  expect(text).toContain('<h1>Connect <bdi>Latchkey</bdi> to <bdi>sales</bdi>?</h1>');
  expect(text).not.toContain(claim);
});

test('consent page: a name cannot bring markup, reorder the page, or fill it', async () => {
  const { cookie } = await app.browser('nils');
  const long = `<b>\u202e"x" ${'y'.repeat(80)}`;

  const evil = await app.get(asked({ assistant: long }), cookie);
  const tooLong = await app.get(asked({ assistant: 'z'.repeat(101) }), cookie);

  expect(evil.text).toContain('<bdi>&lt;b&gt;\ufffd&quot;x&quot; ');
  expect(evil.text).not.toMatch(/\u202e|y{40}.*<\/h1>/);
  expect(tooLong.text).toContain('Connect <bdi>Latchkey</bdi> to');
});

test('consent page: an application that registered itself cannot bring an assistant’s name', async () => {
  const { cookie } = await app.browser('nick');
  const { stores, clock } = app.server;
  await insertClient(stores.db, {
    id: 'client_self',
    name: 'Helper',
    serverId: undefined,
    scopes: ordinaryScopes,
    redirectUris: ['https://helper.example/cb'],
    jwks: undefined,
    authenticationRequired: false,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: clock.now(),
  });
  const but = { client_id: 'client_self', redirect_uri: 'https://helper.example/cb' };

  const { text } = await app.get(asked({ ...but, assistant: 'Claude Desktop' }), cookie);

  expect(text).toContain('<h1>Connect <bdi>Helper</bdi> to <bdi>sales</bdi>?</h1>');
  expect(text).toContain(claim);
  expect(text).not.toContain('Claude Desktop');
});

test('consent page: a host that this server cannot reach is named, with the remedy', async () => {
  const { cookie } = await app.browser('nadia');
  const client = {
    client_id: 'https://apps.example/c.json',
    redirect_uri: 'https://apps.example/',
  };

  const { status, text } = await app.get(asked(client), cookie);

  expect(status).toBe(400);
  expect(text).toContain('<h1>This server cannot reach apps.example</h1>');
  expect(text).toContain('--no-client-metadata-documents and --dynamic-registration');
  expect(text).not.toContain('developer');
});

test('consent: the lists of connected applications name the assistant, and titles with their names', async () => {
  const { stores } = app.server;
  const nell = await app.browser('nell', { organizationId: 'org_acme', role: 'owner' });
  await setOrganizationTitle(stores.db, 'org_acme', 'Acme Corporation');
  await updateServer(stores.db, 'srv_sales', { title: 'Sales figures' });
  const page = await app.get(asked({ assistant: 'Cursor' }), nell.cookie);
  const { request = '' } = hiddenFields(page.text, '/oauth/consent');
  const fields = { request, decision: 'allow', csrf_token: nell.csrfToken };
  const allowed = await app.post({
    path: '/oauth/consent',
    cookie: nell.cookie,
    body: new URLSearchParams(fields).toString(),
  });
  const code = new URL(allowed.location ?? 'none:').searchParams.get('code') ?? '';
  const { base } = app.server;
  await app.server.redeem(
    { code, verifier },
    {
      client_id: `${base}/oauth/clients/latchkey.json`,
      redirect_uri: 'http://127.0.0.1:49152/callback',
    },
  );

  const account = await app.get('/account', nell.cookie);
  const consents = await app.get('/dashboard/acme/consents', nell.cookie);

  const server = '<bdi>Sales figures</bdi> <code class="slug">sales</code>';
  const organization = '<bdi>Acme Corporation</bdi> <code class="slug">acme</code>';
  expect(page.text).toContain('to <bdi>Sales figures</bdi>?</h1>');
  expect(page.text).toContain(`${organization} / ${server}`);
  for (const { text } of [account, consents]) {
    expect(text).toContain('Cursor (via Latchkey)');
    expect(text).toContain(server);
  }
  expect(account.text).toContain(`${server} <span class="soft">in</span> ${organization}`);
});

test.each([
  [{ clientName: 'Latchkey', assistant: undefined }, 'Latchkey'],
  [{ clientName: 'Latchkey', assistant: ' ' }, 'Latchkey'],
  [{ clientName: '', assistant: null }, 'An unnamed application'],
  [{ clientName: 'Latchkey', assistant: 'VS\nCode' }, 'VS Code (via Latchkey)'],
])('application name: %o is shown as “%s”', (names, shown) => {
  expect(applicationName(names)).toBe(shown);
});
