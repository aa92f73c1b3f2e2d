import { randomBytes } from 'node:crypto';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import {
  passkeyDomain,
  passkeyRegistrationOptions,
  type PasskeySite,
  passkeySignInOptions,
  registerPasskey,
  verifyPasskeySignIn,
} from '#server/accounts/passkeys';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from '#support/open-database';
import { softAuthenticator, type Deviation } from '#support/soft-authenticator';
import { turnedClock } from '#support/turned-clock';
import { insertUser } from '#server/db/people';

const base = 'https://latchkey.example.com';
const cookie = 'c'.repeat(32);
const clock = turnedClock();
const user = { id: 'user_dana', email: 'dana@example.com', createdAt: clock.now() };
let stores: OpenStores & AsyncDisposable;
let site: PasskeySite;

beforeAll(async () => {
  stores = await openDatabase();
  await insertOrganization(stores.db, { id: 'org_1', name: 'acme', createdAt: clock.now() });
  await insertUser(stores.db, user, { organizationId: 'org_1', role: 'owner' });
  site = { ...stores, base, sealing: masterKey(randomBytes(32)), clock };
});
afterAll(() => stores[Symbol.asyncDispose]());

const challengeOf = (options: object) => ({
  challenge: 'challenge' in options ? String(options.challenge) : '',
});
const registered = async (wrong: Deviation = {}) => {
  const authenticator = softAuthenticator(base);
  const options = challengeOf(await passkeyRegistrationOptions(user, cookie, site));
  const answer = authenticator.register(options, wrong);
  const ok = await registerPasskey({ user, name: 'Laptop', answer }, cookie, site);
  return { ok, authenticator };
};
const signedIn = async (answer: unknown, cookieToken = cookie) => {
  const { userId, isProven } = await verifyPasskeySignIn(answer, cookieToken, site);
  return isProven ? userId : undefined;
};
const signInBy = async (
  authenticator: ReturnType<typeof softAuthenticator>,
  wrong: Deviation = {},
) => {
  const options = challengeOf(await passkeySignInOptions(cookie, site));
  return signedIn(authenticator.signIn(options, wrong));
};

test('83 a registered passkey signs in repeatedly', async () => {
  const { ok, authenticator } = await registered();

  expect(ok).toBe(true);
  expect(await signInBy(authenticator)).toBe(user.id);
  expect(await signInBy(authenticator, { userHandle: user.id })).toBe(user.id);
});

test.each<[string, Deviation]>([
  ['another origin', { origin: 'https://evil.example' }],
  ['another rpId', { rpId: 'evil.example' }],
  ['no user verification', { isUserVerified: false }],
  ['a challenge that we never gave', { challenge: Buffer.alloc(38).toString('base64url') }],
])('83 a passkey with %s is refused, at registration and at sign-in', async (_, wrong) => {
  const { authenticator } = await registered();

  expect((await registered(wrong)).ok).toBe(false);
  expect(await signInBy(authenticator, wrong)).toBeUndefined();
});

test('83 a counter that does not increase is a sign of a clone, and refused', async () => {
  const { authenticator } = await registered();
  await signInBy(authenticator, { counter: 10 });

  expect(await signInBy(authenticator, { counter: 10 })).toBeUndefined();
  expect(await signInBy(authenticator, { counter: 9 })).toBeUndefined();
  expect(await signInBy(authenticator, { counter: 11 })).toBe(user.id);
});

test('83 a response is accepted once, in the browser of its challenge, within five minutes', async () => {
  const { authenticator } = await registered();
  const options = challengeOf(await passkeySignInOptions(cookie, site));
  const answer = authenticator.signIn(options);
  const late = authenticator.signIn(challengeOf(await passkeySignInOptions(cookie, site)));

  expect(await signedIn(answer, 'd'.repeat(32))).toBeUndefined();
  expect(await signedIn(answer)).toBe(user.id);
  expect(await signedIn(answer)).toBeUndefined();
  clock.advance(301);
  expect(await signedIn(late)).toBeUndefined();
});

test('83 of two concurrent uses of the same response one is accepted', async () => {
  const { authenticator } = await registered();
  const answers = await Promise.all(
    [1, 2, 3].map(async () => {
      const options = challengeOf(await passkeySignInOptions(cookie, site));
      return authenticator.signIn(options, { counter: 50 });
    }),
  );

  const results = await Promise.all(answers.map((answer) => signedIn(answer)));

  expect(results.filter(Boolean)).toEqual([user.id]);
});

test('83 a challenge for adding a passkey does not sign in, and one of another person does not either', async () => {
  const { authenticator } = await registered();
  const add = challengeOf(await passkeyRegistrationOptions(user, cookie, site));
  const other = { ...user, id: 'user_eve' };
  const theirs = challengeOf(await passkeyRegistrationOptions(other, cookie, site));

  expect(await signedIn(authenticator.signIn(add))).toBeUndefined();
  const answer = softAuthenticator(base).register(theirs);
  expect(await registerPasskey({ user, name: 'x', answer }, cookie, site)).toBe(false);
  expect(await signInBy(authenticator, { userHandle: 'user_eve' })).toBeUndefined();
});

test('passkeys are not available under an IP address', () => {
  expect(passkeyDomain('http://127.0.0.1:8787')).toBeUndefined();
  expect(passkeyDomain('http://[::1]:8787')).toBeUndefined();
  expect(passkeyDomain('http://localhost:8787')).toBe('localhost');
});
