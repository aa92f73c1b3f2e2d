import { createHmac, randomBytes } from 'node:crypto';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { issueChallenge, spendChallenge } from '#server/accounts/challenges';
import { randomToken } from '#server/accounts/sessions';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from '#support/open-database';
import { turnedClock } from '#support/turned-clock';

const clock = turnedClock();
const sealing = masterKey(randomBytes(32));
const cookieToken = randomToken();
const purpose = 'passkey-sign-in';
let stores: OpenStores & AsyncDisposable;
beforeAll(async () => {
  stores = await openDatabase();
});
afterAll(() => stores[Symbol.asyncDispose]());

const ports = () => ({ ...stores, sealing, clock });
const issue = () => issueChallenge(purpose, cookieToken, ports());
const spend = (challenge: string, but: Partial<{ purpose: string; cookieToken: string }> = {}) =>
  spendChallenge({ challenge, purpose, cookieToken, ...but }, ports());
const rows = () => stores.db.selectFrom('spent_challenge').selectAll().execute();

test('91: a challenge is accepted once, even if many requests bring it at the same moment', async () => {
  const challenge = issue();

  const answers = await Promise.all(Array.from({ length: 8 }, () => spend(challenge)));

  expect(answers.filter(Boolean)).toEqual([true]);
});

test('91: a challenge is for one purpose, one browser and one server', async () => {
  const challenge = issue();
  const other = issueChallenge(purpose, cookieToken, {
    sealing: masterKey(randomBytes(32)),
    clock,
  });

  expect(await spend(challenge, { purpose: 'passkey-add user_dana' })).toBe(false);
  expect(await spend(challenge, { cookieToken: randomToken() })).toBe(false);
  expect(await spend(other)).toBe(false);
  expect(await spend(challenge)).toBe(true);
});

test('91: a challenge made with the key of the cookie is refused, and not stored', async () => {
  const head = Buffer.concat([Buffer.alloc(22)]);
  head.writeUIntBE(clock.now() + 200, 0, 6);
  const mac = createHmac('sha256', cookieToken).update(`challenge ${purpose}\0`).update(head);
  const before = await rows();

  const forged = Buffer.concat([head, mac.digest().subarray(0, 16)]).toString('base64url');

  expect(await spend(forged)).toBe(false);
  expect(await rows()).toEqual(before);
});

test.each([
  ['five minutes after it was issued', 300, false],
  ['just before that', 299, true],
])('91: a challenge that is returned %s is accepted: %s', async (_, seconds, isAccepted) => {
  const challenge = issue();
  clock.advance(seconds);

  expect(await spend(challenge)).toBe(isAccepted);
});

test('91: a challenge that expires more than five minutes ahead is refused, and not stored', async () => {
  const ahead = turnedClock(clock.now() + 1);
  const challenge = issueChallenge(purpose, cookieToken, { sealing, clock: ahead });
  const before = await rows();

  expect(await spend(challenge)).toBe(false);
  expect(await rows()).toEqual(before);
});

test('91: records of used challenges are removed once they have expired', async () => {
  for (let turn = 0; turn < 5; turn += 1) await spend(issue());
  clock.advance(300);
  await spend(issue());

  expect(await rows()).toHaveLength(1);
});
