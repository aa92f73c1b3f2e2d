import { afterAll, beforeAll, expect, test } from 'vitest';

import { grantingServer } from '#support/granting-server';
import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const addresses = (count: number, network: string) =>
  Array.from({ length: count }, (_, index) => `${network}::${(index + 1).toString(16)}`);

test('44: lockout: guesses from many addresses of one IPv6 network count as one', async () => {
  await using server = await grantingServer({ args: ['--trust-proxy', '127.0.0.1'] });
  const { id, secret } = server.client;
  const ask = async (address: string, typed: string) => {
    const fields = { grant_type: 'client_credentials', client_id: id, client_secret: typed };
    const { status } = await server.post('/api/oauth/token', fields, {
      'x-forwarded-for': address,
    });
    return status;
  };
  const guesses = [];
  for (const address of addresses(20, '2001:db8:1:1')) guesses.push(await ask(address, 'wrong'));

  expect(new Set(guesses)).toEqual(new Set([401]));
  expect(await ask('2001:db8:1:1:ffff::1', secret)).toBe(429);
  expect(await ask('2001:db8:1:2::1', secret)).toBe(200);
});

const register = (address: string) =>
  app.post({
    path: '/api/oauth/register',
    cookie: '',
    body: JSON.stringify({ redirect_uris: ['https://app.example/cb'] }),
    headers: { 'content-type': 'application/json' },
    address,
  });

test('44: dynamic registration: one IPv6 network can register thirty clients an hour', async () => {
  const made = [];
  for (const address of addresses(31, '2001:db8:2:1')) made.push((await register(address)).status);

  expect(made).toEqual([...Array.from({ length: 30 }, () => 201), 429]);
  expect((await register('2001:db8:2:2::1')).status).toBe(201);
});

test('44, 108: dynamic registration: the /56 around IPv6 networks can register sixty clients an hour', async () => {
  const made = [];
  for (let at = 0; at < 61; at += 1) {
    made.push((await register(`2001:db8:3:${(256 + at).toString(16)}::1`)).status);
  }

  expect(made).toEqual([...Array.from({ length: 60 }, () => 201), 429]);
  expect((await register('2001:db8:3:200::1')).status).toBe(201);
});
