import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertClient } from '#server/db/clients';
import { hiddenFields } from '#support/granting-server';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
  const { db } = app.server.stores;
  const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
  const site = { id: 'client_site', name: 'Site', serverId: 'srv_sales', createdAt: 0 };
  const redirectUris = ['https://app.example/cb'];
  await insertClient(db, { ...site, ...none, scopes: ['mcp:tools:read'], redirectUris });
});
afterAll(() => app[Symbol.asyncDispose]());

const ask = ({ cookie }: SignedInBrowser) => {
  const query = new URLSearchParams({
    client_id: 'client_site',
    response_type: 'code',
    redirect_uri: 'https://app.example/cb',
    code_challenge: 'x'.repeat(43),
    code_challenge_method: 'S256',
  });
  return app.get(`/oauth/consent?${query.toString()}`, cookie);
};
const allow = async (browser: SignedInBrowser) => {
  const fields = hiddenFields((await ask(browser)).text, '/oauth/consent');
  const body = new URLSearchParams({ ...fields, decision: 'allow' }).toString();
  return app.post({ path: '/oauth/consent', cookie: browser.cookie, body });
};
/** The session ends in the moment in which a code is stored, as it does when the password is replaced. */
const endsSession = ({ userId }: SignedInBrowser) => {
  const { connection } = app.server.stores;
  connection.exec(`create temp trigger ends_${userId} before insert on main.authorization_code
    when new.person_id = '${userId}'
    begin delete from browser_session where person_id = new.person_id; end`);
};

test('48: consent: a code created while the session ends is not handed out, on a first consent', async () => {
  const browser = await app.browser('user_first');
  endsSession(browser);

  expect((await allow(browser)).location).toBe('/sign-in');
});

test('48: consent: a code created while the session ends is not handed out, on a remembered consent', async () => {
  const browser = await app.browser('user_again');
  const first = await allow(browser);
  endsSession(browser);
  const { status, location } = await ask(browser);

  expect(first.location).toMatch(/[?]code=code_/);
  expect([status, location]).toEqual([303, '/sign-in']);
});

test('88: consent: a code issued by a remembered consent is audited with the address of the request', async () => {
  const browser = await app.browser('user_noted');
  await allow(browser);
  await ask(browser);
  const [newest] = await newestEvents(app.server.stores.db, 1);

  expect(newest).toMatchObject({
    actor: 'user:user_noted',
    organization: 'acme',
    action: 'consent.remembered',
    target: 'client_site acme/sales',
    address: '127.0.0.1',
    outcome: 'done',
  });
});
