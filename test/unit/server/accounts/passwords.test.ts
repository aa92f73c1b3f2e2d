import { expect, test } from 'vitest';

import { type HashedFor, HashingQueue } from '#server/accounts/hashing-queue';
import { insertOrganization } from '#server/db/organizations';
import { passwordHashing, setPassword } from '#server/accounts/passwords';
import { insertUser } from '#server/db/people';
import { insertPersonalToken, listPersonalTokens } from '#server/db/personal-tokens';
import { openDatabase } from '#support/open-database';
import { turnedClock } from '#support/turned-clock';

const quick = passwordHashing({ log2Cost: 10 });
const dana = { known: 'dana' };

test('a password is verified by its hash, and another password is not', async () => {
  const hash = await quick.hash('correct horse battery');

  expect(hash).toMatch(/^\$scrypt\$ln=10,r=8,p=2\$/);
  expect(await quick.verify('correct horse battery', hash, dana)).toBe(true);
  expect(await quick.verify('correct horse batterz', hash, dana)).toBe(false);
});

test('the parameters are at least those that OWASP recommends', async () => {
  const hash = await passwordHashing().hash('correct horse battery');

  expect(hash).toMatch(/^\$scrypt\$ln=16,r=8,p=2\$[\w+/]{22}\$[\w+/]{43}$/);
});

test('the same password is hashed differently each time, and verified under older parameters', async () => {
  const older = passwordHashing({ log2Cost: 9 });
  const [one, two] = [await older.hash('same password'), await older.hash('same password')];

  expect(one).not.toBe(two);
  expect(await quick.verify('same password', two, dana)).toBe(true);
});

test('letters that look the same make the same password', async () => {
  const hash = await quick.hash('caf\u00e9 caf\u00e9 caf\u00e9');

  expect(await quick.verify('cafe\u0301 cafe\u0301 cafe\u0301', hash, dana)).toBe(true);
});

test('a person without a password fails, after the same work as a wrong password', async () => {
  const hashing = passwordHashing({ log2Cost: 12 });
  const hash = await hashing.hash('correct horse battery');
  // The processor time of this process, which does not depend on how busy other processes are.
  const work = async (encoded: string | undefined) => {
    const start = process.cpuUsage();
    for (let turn = 0; turn < 5; turn += 1) await hashing.verify('wrong', encoded, dana);
    const { user, system } = process.cpuUsage(start);
    return user + system;
  };
  await work(hash);

  const [known, unknown] = [await work(hash), await work(undefined)];

  expect(await hashing.verify('', undefined, dana)).toBe(false);
  expect(unknown / known).toBeGreaterThan(0.3);
});

/** Queues work for all of these at the same moment; the order in which they had their turn, and who was refused. */
async function verified(...asked: readonly HashedFor[]) {
  const queue = new HashingQueue();
  const order: string[] = [];
  const refused: string[] = [];
  await Promise.all(
    asked.map(async (whose) => {
      const name = 'known' in whose ? whose.known : whose.network;
      const work = async () => void order.push(name);
      await queue.run(whose, work).catch(() => refused.push(name));
    }),
  );
  return { order, refused };
}
const times = (count: number, act: (index: number) => HashedFor) =>
  Array.from({ length: count }, (_, index) => act(index));
const network = (name: string) => ({ network: name });

test('108: hashing: a known person comes before all unknown networks', async () => {
  const { order } = await verified(...times(12, () => network('guesser')), dana);

  expect(order.indexOf('dana')).toBeLessThan(5);
});

test('108: hashing: companies take turns, so that many people of one do not delay the only one of another', async () => {
  const people = times(90, (index) => ({ known: `person ${index}`, of: 'evil.example' }));
  const { order } = await verified(...people, { known: 'dana', of: 'acme.example' });

  expect(order.indexOf('dana')).toBeLessThan(5);
});

test('108: hashing: when a hundred wait, the company with most of them makes room for another', async () => {
  const people = times(102, (index) => ({ known: `person ${index}`, of: 'evil.example' }));
  const { order, refused } = await verified(...people, { known: 'dana', of: 'acme.example' });

  expect(order).toContain('dana');
  expect(refused).toHaveLength(1);
});

test('108: hashing: all who wait have their turn after others made room', async () => {
  const people = times(102, (index) => ({ known: `person ${index}`, of: 'evil.example' }));
  const others = times(3, (index) => ({ known: `other ${index}`, of: 'acme.example' }));
  const { order, refused } = await verified(...people, ...others);

  expect([order.length, refused.length]).toEqual([102, 3]);
});

test('108: hashing: networks take turns, so that one with few guesses does not wait for one with many', async () => {
  const { order } = await verified(...times(12, () => network('guesser')), network('other'));

  expect(order.indexOf('other')).toBeLessThan(6);
});

test('108: hashing: known people leave every fourth turn to unknown networks, even if they never stop', async () => {
  const people = times(20, (index) => ({ known: `person ${index % 2}` }));
  const { order } = await verified(...people, network('other'));

  expect(order.indexOf('other')).toBeLessThan(8);
});

test('107: hashing: 25 requests of one network wait, and the next is answered as busy', async () => {
  const { order, refused } = await verified(...times(40, () => network('guesser')));

  expect([order.length, refused.length]).toEqual([27, 13]);
  expect(await quick.verify('wrong', undefined, network('guesser'))).toBe(false);
});

test('107: hashing: a hundred requests wait; beyond that, another network replaces one with more', async () => {
  const crowd = times(102, (index) => network(`guesser ${index % 12}`));
  const { order, refused } = await verified(...crowd, network('other'));

  expect([order.length, refused.length]).toEqual([102, 1]);
  expect(order).toContain('other');
});

test('48: a new password revokes all personal tokens, even those made by a session that is about to end', async () => {
  await using stores = await openDatabase();
  const { db } = stores;
  const clock = turnedClock();
  const createdAt = clock.now();
  const user = { id: 'user_dana', email: 'dana@example.com', createdAt };
  await insertOrganization(stores.db, { id: 'org_acme', name: 'acme', createdAt });
  await insertUser(db, user, { organizationId: 'org_acme', role: 'member' });
  const token = { userId: user.id, name: 'made', hint: 'pat_…', factors: 1, createdAt } as const;
  const expiresAt = createdAt + 60;
  await insertPersonalToken(db, { ...token, id: 'long_ago', hash: 'long ago', expiresAt }, 10);
  // Just before the password is replaced, notes the active tokens, and inserts one as a session that is about to end could.
  stores.connection.exec(`
    create temp table active (id text);
    create temp trigger by_a_session_that_ends before insert on main.password begin
      insert into active select id from personal_token where revoked_at is null;
      insert into personal_token
        (id, person_id, hash, hint, name, created_at, expires_at, last_used_at, revoked_at)
        values ('late', 'user_dana', 'late', 'pat_…', 'made', ${createdAt}, ${expiresAt}, null, null);
    end`);

  const visit = { address: '192.0.2.1', requestId: 'r' };
  await setPassword(user, 'hash', visit, { db, clock });

  // If the process ends between the two steps, the old password remains and no token is active.
  expect(stores.connection.prepare('select id from active').all()).toEqual([]);
  const tokens = await listPersonalTokens(db, user.id);
  expect(tokens.map(({ id, revokedAt }) => [id, revokedAt !== undefined])).toEqual([
    ['late', true],
    ['long_ago', true],
  ]);
});
