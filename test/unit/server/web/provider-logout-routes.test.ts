import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const announce = (address: string, provider = '') =>
  app.post({
    path: `/sign-in/provider/${provider}backchannel-logout`,
    cookie: '',
    body: 'logout_token=invalid',
    address,
  });

test('170: logout: a network that sends invalid tokens is refused after twenty, for this provider alone', async () => {
  const statuses = [];
  for (let sent = 0; sent < 21; sent += 1) statuses.push((await announce('192.0.2.1')).status);
  const elsewhere = [await announce('192.0.2.2'), await announce('192.0.2.1', 'idp_other/')];

  expect(statuses).toEqual([...Array.from({ length: 20 }, () => 400), 429]);
  expect(elsewhere.map(({ status }) => status)).toEqual([400, 400]);
});
