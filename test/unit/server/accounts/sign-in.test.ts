import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { rememberBrowser } from '#server/accounts/guess-limit';
import { passwordHashing } from '#server/accounts/passwords';
import { ownPath, signIn } from '#server/accounts/sign-in';
import { replacePasswordHash } from '#server/db/authenticators';
import { insertUser } from '#server/db/people';
import type { OpenStores } from '#server/app/stores';
import { newestEvents } from '#support/newest-events';
import { openDatabase } from '#support/open-database';
import { turnedClock } from '#support/turned-clock';

const hashing = passwordHashing({ log2Cost: 8 });
const password = 'correct horse battery';
const clock = turnedClock();
let stores: OpenStores & AsyncDisposable;

beforeAll(async () => {
  stores = await openDatabase();
  const createdAt = clock.now();
  await insertOrganization(stores.db, { id: 'org_1', name: 'acme', createdAt });
  const user = { id: 'user_dana', email: 'dana@example.com', createdAt };
  await insertUser(stores.db, user, { organizationId: 'org_1', role: 'owner' });
  await replacePasswordHash(stores.db, user.id, await hashing.hash(password));
});
afterAll(() => stores[Symbol.asyncDispose]());
beforeEach(() => clock.advance(2 * 24 * 3600));

const visit = (address = '192.0.2.1') => ({ address, userAgent: 'test', requestId: 'r' });
const attempt = (
  typed: string,
  {
    email = 'dana@example.com',
    address = '192.0.2.1',
    deviceToken,
  }: { email?: string; address?: string; deviceToken?: string } = {},
) => signIn({ email, password: typed, deviceToken }, visit(address), { ...stores, hashing, clock });

test('the right password signs in, however the address is spelt', async () => {
  expect(await attempt(password, { email: ' DANA@Example.com ' })).toMatchObject({
    outcome: 'signed-in',
    user: { id: 'user_dana' },
  });
});

test('a wrong password and an unknown address get the same refusal', async () => {
  const wrong = await attempt('wrong');
  const unknown = await attempt('wrong', { email: 'nobody@example.com' });

  expect(wrong).toEqual({ outcome: 'refused' });
  expect(unknown).toEqual(wrong);
});

test.each(['dana@example.com', 'nobody@example.com'])(
  'after ten wrong passwords for %s from one network the next attempt must wait, longer each time, up to a quarter of an hour',
  async (email) => {
    for (let turn = 0; turn < 10; turn += 1) await attempt('wrong', { email });

    const waits = [];
    for (let turn = 0; turn < 11; turn += 1) {
      const result = await attempt('wrong', { email });
      const waitSeconds = result.outcome === 'wait' ? result.waitSeconds : 0;
      waits.push(waitSeconds);
      clock.advance(waitSeconds);
      await attempt('wrong', { email });
    }

    expect(waits).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
  },
);

test('an attempt during the wait does not make the wait longer', async () => {
  for (let turn = 0; turn < 10; turn += 1) await attempt('wrong');
  for (let turn = 0; turn < 50; turn += 1) await attempt('wrong');

  expect(await attempt(password)).toEqual({ outcome: 'wait', waitSeconds: 2 });
  clock.advance(2);
  expect(await attempt(password)).toMatchObject({ outcome: 'signed-in' });
  expect(await attempt('wrong')).toEqual({ outcome: 'refused' });
});

test('a network that tries many accounts must wait; another one does not', async () => {
  for (let turn = 0; turn < 30; turn += 1) {
    await attempt('wrong', { email: `nobody${turn}@example.com`, address: '2001:db8:1:2::1' });
  }

  const neighbour = await attempt(password, { address: '2001:db8:1:2:ffff::2' });
  const other = await attempt(password, { address: '2001:db8:1:3::1' });

  expect(neighbour.outcome).toBe('wait');
  expect(other.outcome).toBe('signed-in');
});

test('signing in to an account of its own does not reset the count of a network', async () => {
  const address = '203.0.113.9';
  for (let turn = 0; turn < 29; turn += 1) {
    await attempt('wrong', { email: `nobody${turn}@example.com`, address });
  }
  await attempt(password, { address });
  await attempt('wrong', { email: 'nobody@example.com', address });

  expect((await attempt(password, { address })).outcome).toBe('wait');
});

const looksAtOnce = async (count: number, addressOf: (index: number) => string) => {
  const guesses = Array.from({ length: count }, (_, index) =>
    attempt('wrong', { address: addressOf(index) }),
  );
  return (await Promise.all(guesses)).filter(({ outcome }) => outcome === 'refused').length;
};

test('93: of a hundred concurrent guesses from one network ten are checked', async () => {
  expect(await looksAtOnce(100, () => '198.51.100.7')).toBe(10);
});

test('93: of concurrent guesses from many networks a hundred are checked, and then one a minute', async () => {
  const looked = await looksAtOnce(150, (index) => `198.51.100.${index}`);
  const waits: number[] = [];
  for (let turn = 0; turn < 8; turn += 1) {
    const result = await attempt('wrong', { address: `203.0.113.${turn}` });
    const waitSeconds = result.outcome === 'wait' ? result.waitSeconds : 0;
    waits.push(waitSeconds);
    clock.advance(waitSeconds);
    await attempt('wrong', { address: `203.0.113.${turn}` });
  }

  expect(looked).toBe(100);
  expect(waits).toEqual([2, 4, 8, 16, 32, 60, 60, 60]);
});

test('93: nine networks that keep guessing make no other network wait', async () => {
  for (let turn = 0; turn < 12; turn += 1) {
    for (let network = 0; network < 9; network += 1) {
      await attempt('wrong', { address: `203.0.113.${network}` });
    }
    clock.advance(900);
  }

  expect((await attempt(password, { address: '198.51.100.7' })).outcome).toBe('signed-in');
});

test('93: a browser that signed in before does not wait for others, and only at that account', async () => {
  const deviceToken = await rememberBrowser('user_dana', undefined, { ...stores, clock });
  for (let turn = 0; turn < 11; turn += 1) await attempt('wrong');
  for (let turn = 0; turn < 31; turn += 1) {
    await attempt('wrong', { email: `nobody${turn}@example.com`, deviceToken });
  }

  expect((await attempt(password)).outcome).toBe('wait');
  expect((await attempt(password, { deviceToken })).outcome).toBe('signed-in');
  expect((await attempt('x', { email: 'nobody@example.com', deviceToken })).outcome).toBe('wait');
});

test('every checked attempt is in the audit log', async () => {
  await attempt('wrong');
  await attempt(password);

  const [right, wrong] = await newestEvents(stores.db, 2);

  expect(right).toMatchObject({ action: 'sign-in', actor: 'user:user_dana', outcome: 'done' });
  expect(wrong).toMatchObject({ action: 'sign-in', outcome: 'refused', address: '192.0.2.1' });
});

test('48: a password that is replaced during its check does not sign in', async () => {
  const user = { id: 'user_eve', email: 'eve@example.com', createdAt: clock.now() };
  await insertUser(stores.db, user, { organizationId: 'org_1', role: 'member' });
  await replacePasswordHash(stores.db, user.id, await hashing.hash(password));
  const slow = {
    ...hashing,
    async verify(...asked: Parameters<typeof hashing.verify>) {
      const isRight = await hashing.verify(...asked);
      await replacePasswordHash(stores.db, user.id, await hashing.hash('another horse battery'));
      return isRight;
    },
  };

  const typed = { email: user.email, password, deviceToken: undefined };
  const result = await signIn(typed, visit(), {
    ...stores,
    hashing: slow,
    clock,
  });

  expect(result).toEqual({ outcome: 'refused' });
});

test('a very long address is counted under a short name', async () => {
  await attempt('wrong', { email: `${'x'.repeat(16_000)}@example.com` });
  const kept = await stores.db.selectFrom('failed_attempt').select('subject').execute();

  expect(Math.max(...kept.map(({ subject }) => subject.length))).toBeLessThan(400);
});

test('the text that was entered as an address, which may be a password, is not stored', async () => {
  const slip = 'Tr0ub4dor and three';
  for (let turn = 0; turn < 10; turn += 1) await attempt('wrong', { email: slip });
  const kept = JSON.stringify(await stores.db.selectFrom('failed_attempt').selectAll().execute());

  expect(kept).not.toMatch(/tr0ub4dor/i);
  expect(await attempt('wrong', { email: ` ${slip.toUpperCase()}` })).toMatchObject({
    outcome: 'wait',
  });
});

const base = 'https://latchkey.example.com';

test.each(['/account', '/oauth/consent?client_id=a&state=%2F%2Fx', '/a#b'])(
  'a path on this server is kept: %s',
  (path) => expect(ownPath(path, base)).toBe(path),
);

test.each([
  undefined,
  '//evil.example',
  'https://evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  ' //evil.example',
  'javascript:alert(1)',
  'account',
  '/\u202e',
])('any other destination becomes the start page: %j', (text) => {
  expect(ownPath(text, base)).toBe('/');
});
