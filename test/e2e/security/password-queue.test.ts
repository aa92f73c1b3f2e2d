import { afterAll, beforeAll, expect, test } from 'vitest';

import { passwordHashing } from '#server/accounts/passwords';
import { csrfToken, randomToken } from '#server/accounts/sessions';
import { replacePasswordHash } from '#server/db/authenticators';
import { cookieName } from '#server/web/page-request';
import { pageApp, type PageApp } from '#support/page-app';

const password = 'correct horse battery';
const log2Cost = 13;
const [email, userId] = ['user_owner@example.com', 'user_owner'];
let app: PageApp;

beforeAll(async () => {
  app = await pageApp({ log2Cost });
  await app.browser(userId);
  const hash = await passwordHashing({ log2Cost }).hash(password);
  await replacePasswordHash(app.server.stores.db, userId, hash);
});
afterAll(() => app[Symbol.asyncDispose]());

/** A browser at an address, which keeps the cookie that makes it known. */
const browserAt = (address: string) => {
  const token = randomToken();
  let device = '';
  return async (who: string, typed: string) => {
    const cookie = [`${cookieName('latchkey-browser', app.server.base)}=${token}`, device].join(
      '; ',
    );
    const fields = { csrf_token: csrfToken(token), email: who, password: typed };
    const body = new URLSearchParams(fields).toString();
    const answer = await app.post({ path: '/sign-in', cookie, body, address });
    const name = cookieName('latchkey-device', app.server.base);
    device = answer.cookies.find((one) => one.startsWith(name)) ?? device;
    return answer.status;
  };
};

test('108: starvation: 210 guesses from seven addresses keep neither a known browser nor another network waiting', async () => {
  const known = browserAt('198.51.100.1');
  const before = await known(email, password);
  let looked = 0;
  const guesses = Array.from({ length: 210 }, async (_, index) => {
    const guesser = browserAt(`192.0.2.${index % 7}`);
    const status = await guesser(`nobody${index}@example.com`, 'wrong');
    if (status === 422) looked += 1;
    return status;
  });
  const owner = async (signIn: ReturnType<typeof browserAt>) => ({
    status: await signIn(email, password),
    lookedBefore: looked,
  });

  const [inKnown, elsewhere] = await Promise.all([owner(known), owner(browserAt('203.0.113.1'))]);
  const statuses = await Promise.all(guesses);

  expect([before, inKnown.status, elsewhere.status]).toEqual([303, 303, 303]);
  // Two were being checked, and as many begin before the answer is sent.
  expect(inKnown.lookedBefore).toBeLessThan(8);
  // One of each address, for each that it waited for.
  expect(elsewhere.lookedBefore).toBeLessThan(24);
  expect(looked).toBeGreaterThan(60);
  // What an address has waiting beyond its share is refused, and not checked.
  expect(new Set(statuses)).toEqual(new Set([422, 503]));
});
