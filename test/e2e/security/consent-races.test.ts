import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { hiddenFields } from '#support/granting-server';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
  const { clients } = app.server.stores;
  const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
  const site = { id: 'client_site', name: 'Site', serverId: 'srv_sales', createdAt: 0 };
  const redirectUris = ['https://app.example/cb'];
  await clients.add({ ...site, ...none, scopes: ['mcp:tools:read'], redirectUris });
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
/** The password is replaced in the moment in which a code is made. */
const replaced = ({ userId }: SignedInBrowser) => {
  const { codes, passwords } = app.server.stores;
  const add = codes.add.bind(codes);
  vi.spyOn(codes, 'add').mockImplementationOnce(async (...code) => {
    await passwords.set(userId, 'hash');
    await add(...code);
  });
};

test('48: a code made while the session ended is handed to nobody, asked for the first time', async () => {
  const browser = await app.browser('user_first');
  replaced(browser);

  expect((await allow(browser)).location).toBe('/sign-in');
});

test('48: a code made while the session ended is handed to nobody, with a remembered consent', async () => {
  const browser = await app.browser('user_again');
  const first = await allow(browser);
  replaced(browser);
  const { status, location } = await ask(browser);

  expect(first.location).toMatch(/[?]code=code_/);
  expect([status, location]).toEqual([303, '/sign-in']);
});

test('88: a code that a remembered consent gives is written down, with where it was asked from', async () => {
  const browser = await app.browser('user_noted');
  await allow(browser);
  await ask(browser);
  const [newest] = await app.server.stores.audit.newest(1);

  expect(newest).toMatchObject({
    actor: 'user:user_noted',
    organization: 'acme',
    action: 'consent.remembered',
    target: 'client_site acme/sales',
    address: '127.0.0.1',
    outcome: 'done',
  });
});
