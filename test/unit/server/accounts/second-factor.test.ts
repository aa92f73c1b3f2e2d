import { randomBytes } from 'node:crypto';

import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { everyRefusal } from '#server/audit/counted-refusals';
import { beginTotp, confirmTotp, removeTotp } from '#server/accounts/authenticator-app';
import { accountSubject } from '#server/accounts/guess-limit';
import { askSecondFactor, proveSecondFactor } from '#server/accounts/second-factor';
import { randomToken } from '#server/accounts/sessions';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from '#support/open-database';
import { turnedClock } from '#support/turned-clock';
import { insertUser } from '#server/db/people';
import { deleteTotp, replacePasswordHash } from '#server/db/authenticators';
import { clearAttempts } from '#server/db/failed-attempts';
import { insertSession, useSession } from '#server/db/sessions';
import { newestEvents } from '#support/newest-events';

const clock = turnedClock();
const sealing = masterKey(randomBytes(32));
const visit = { address: '192.0.2.1', userAgent: 'test', requestId: 'r' };
const cookieToken = randomToken();
let stores: OpenStores & AsyncDisposable;
let people = 0;

beforeAll(async () => {
  stores = await openDatabase();
  await insertOrganization(stores.db, { id: 'org_1', name: 'acme', createdAt: clock.now() });
});
afterAll(() => stores[Symbol.asyncDispose]());
beforeEach(() => clock.advance(2 * 24 * 3600));

const ports = () => ({ ...stores, sealing, refusals: everyRefusal({ ...stores, clock }), clock });
const newPerson = async () => {
  const id = `user_${(people += 1)}`;
  const user = { id, email: `${id}@example.com`, createdAt: clock.now() };
  await insertUser(stores.db, user, { organizationId: 'org_1', role: 'member' });
  await replacePasswordHash(stores.db, id, 'the hash of a password');
  return { user, session: { createdAt: clock.now(), factors: 1 as const } };
};
const enrolled = async () => {
  const person = await newPerson();
  const { secret } = await beginTotp(person, 'Latchkey', ports());
  const codeNow = () =>
    TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: clock.now() * 1000 });
  const first = codeNow();
  const confirmed = await confirmTotp(person, { code: first, issuer: 'x' }, visit, ports());
  if (confirmed.outcome !== 'enrolled') throw new Error('the first code was refused');
  return { ...person, first, codeNow, codes: confirmed.codes };
};
type Brought = Pick<Parameters<typeof proveSecondFactor>[0], 'userId' | 'code' | 'challenge'>;
const bringTo = (brought: Brought, cookie = cookieToken, address = visit.address) =>
  proveSecondFactor({ ...brought, deviceToken: undefined }, cookie, { ...visit, address }, ports());
const prove = async (userId: string, code: string, address = visit.address) => {
  const challenge = (await askSecondFactor(userId, cookieToken, ports())) ?? '';
  return bringTo({ userId, code, challenge }, cookieToken, address);
};

test('a person without a confirmed authenticator app is not asked for a code', async () => {
  const person = await newPerson();
  const before = await askSecondFactor(person.user.id, cookieToken, ports());
  await beginTotp(person, 'Latchkey', ports());

  expect(before).toBeUndefined();
  expect(await askSecondFactor(person.user.id, cookieToken, ports())).toBeUndefined();
});

test('83: a code is accepted once, and that of the enrolment counts', async () => {
  const { user, first, codeNow } = await enrolled();

  const again = await prove(user.id, first);
  clock.advance(30);
  const code = codeNow();
  const both = await Promise.all([prove(user.id, code), prove(user.id, code)]);
  clock.advance(30);
  const late = await prove(user.id, code);

  expect(again.outcome).toBe('refused');
  expect(both.map(({ outcome }) => outcome).toSorted()).toEqual(['proved', 'refused']);
  expect(late.outcome).toBe('refused');
});

test('83: a recovery code is accepted instead, once', async () => {
  const { user, codes } = await enrolled();

  const outcomes = [await prove(user.id, codes[3] ?? ''), await prove(user.id, codes[3] ?? '')];

  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['proved', 'refused']);
});

test('83: after five wrong codes the next one must wait, and a right password in between does not reset it', async () => {
  const { user, codeNow } = await enrolled();
  for (let turn = 0; turn < 5; turn += 1) await prove(user.id, '000000');
  clock.advance(1);
  await clearAttempts(stores.db, accountSubject(user.email));

  const waiting = await prove(user.id, codeNow());
  clock.advance(900);
  const right = await prove(user.id, codeNow());

  expect(waiting).toMatchObject({ outcome: 'wait' });
  expect(right.outcome).toBe('proved');
});

test('93: wrong codes from one network do not block the right one from another', async () => {
  const { user, codeNow } = await enrolled();
  for (let turn = 0; turn < 20; turn += 1) await prove(user.id, '000000');
  clock.advance(30);
  await prove(user.id, '000000');

  expect((await prove(user.id, codeNow())).outcome).toBe('wait');
  expect((await prove(user.id, codeNow(), '198.51.100.7')).outcome).toBe('proved');
});

test('93: wrong codes from four or more networks are slowed down together', async () => {
  const { user } = await enrolled();
  const outcomes: string[] = [];
  for (let turn = 0; turn < 21; turn += 1) {
    outcomes.push((await prove(user.id, '000000', `198.51.100.${turn}`)).outcome);
  }

  expect(outcomes).toEqual([...Array.from({ length: 20 }, () => 'refused'), 'wait']);
});

test('83: the more codes were wrong within a day, the longer the next one must wait, up to a quarter of an hour', async () => {
  const { user } = await enrolled();
  const waits: number[] = [];
  for (let turn = 0; turn < 16; turn += 1) {
    await prove(user.id, '000000');
    const answer = await prove(user.id, '000000');
    const waitSeconds = answer.outcome === 'wait' ? answer.waitSeconds : 0;
    waits.push(waitSeconds);
    clock.advance(waitSeconds);
  }

  expect(waits.slice(2, 14)).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]);
});

test('the challenge is valid once, in its browser, for its person, and for five minutes', async () => {
  const [dana, eve] = [await enrolled(), await enrolled()];
  clock.advance(30);
  const ask = async () => (await askSecondFactor(dana.user.id, cookieToken, ports())) ?? '';
  const bring = (challenge: string, userId = dana.user.id, cookie = cookieToken) =>
    bringTo({ userId, code: 'x', challenge }, cookie);
  const late = { code: 'sign_in_expired' };
  const used = await ask();
  await bring(used);

  await expect(bring(used)).rejects.toMatchObject(late);
  await expect(bring(await ask(), dana.user.id, randomToken())).rejects.toMatchObject(late);
  await expect(bring(await ask(), eve.user.id)).rejects.toMatchObject(late);
  const before = await ask();
  await replacePasswordHash(stores.db, dana.user.id, 'another');
  await expect(bring(before)).rejects.toMatchObject(late);
  const old = await ask();
  clock.advance(300);
  await expect(bring(old)).rejects.toMatchObject(late);
});

test('92: a person without a password is not asked for a code, and cannot prove one', async () => {
  const { user, codeNow, codes } = await enrolled();
  clock.advance(30);
  const challenge = (await askSecondFactor(user.id, cookieToken, ports())) ?? '';
  await stores.db.deleteFrom('password').where('person_id', '=', user.id).execute();
  const bring = (code: string) => bringTo({ userId: user.id, code, challenge });
  const late = { code: 'sign_in_expired' };

  await expect(askSecondFactor(user.id, cookieToken, ports())).rejects.toMatchObject(late);
  await expect(bring(codeNow())).rejects.toMatchObject(late);
  await expect(bring(codes[0] ?? '')).rejects.toMatchObject(late);
});

test('91: a challenge that was not issued is in the audit log, with the person it names', async () => {
  const { user } = await enrolled();
  const bring = (userId: string) => bringTo({ userId, code: 'x', challenge: 'x' });

  await expect(bring(user.id)).rejects.toMatchObject({ code: 'sign_in_expired' });
  await expect(bring('user_nobody')).rejects.toMatchObject({ code: 'sign_in_expired' });

  const actor = `user:${user.id}`;
  expect(await newestEvents(stores.db, 1)).toMatchObject([
    { actor, action: 'sign-in', target: 'challenge', outcome: 'refused', address: '192.0.2.1' },
  ]);
});

test('a code that arrives after the app was removed does not sign in', async () => {
  const { user, codeNow } = await enrolled();
  clock.advance(30);
  const challenge = (await askSecondFactor(user.id, cookieToken, ports())) ?? '';
  await deleteTotp(stores.db, user.id);

  const answer = bringTo({ userId: user.id, code: codeNow(), challenge });

  await expect(answer).rejects.toMatchObject({ code: 'sign_in_expired' });
});

test('turning it on ends every session; turning it off takes both factors, freshly proved', async () => {
  const person = await newPerson();
  const { user } = person;
  const session = {
    id: 'session_old',
    userId: user.id,
    address: '',
    userAgent: '',
    factors: 1,
  } as const;
  const times = { createdAt: clock.now(), usedAt: clock.now(), expiresAt: clock.now() + 9 };
  await insertSession(stores.db, { ...session, ...times, tokenHash: 'old' });
  const { secret } = await beginTotp(person, 'Latchkey', ports());
  const wrong = await confirmTotp(person, { code: '000000', issuer: 'x' }, visit, ports());
  const code = TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: clock.now() * 1000 });
  await confirmTotp(person, { code, issuer: 'x' }, visit, ports());
  const both = { createdAt: clock.now(), factors: 2 as const };
  const old = { ...both, createdAt: clock.now() - 600 };

  expect(wrong).toMatchObject({ outcome: 'wrong', enrolment: { secret } });
  expect(await useSession(stores.db, 'old', clock.now())).toBeUndefined();
  for (const proved of [person.session, old]) {
    const removal = removeTotp({ user, session: proved }, visit, ports());
    await expect(removal).rejects.toMatchObject({ code: 'reauthentication_required' });
  }
  await expect(beginTotp(person, 'x', ports())).rejects.toMatchObject({ code: 'enrolled' });
  await removeTotp({ user, session: both }, visit, ports());
  expect(await askSecondFactor(user.id, cookieToken, ports())).toBeUndefined();
});
