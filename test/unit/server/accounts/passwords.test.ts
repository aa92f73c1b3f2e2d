import { expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { passwordHashing, setPassword } from '#server/accounts/passwords';
import { insertUser } from '#server/db/people';
import { insertPersonalToken, listPersonalTokens } from '#server/db/personal-tokens';
import { openDatabase } from '#support/open-database';
import { turnedClock } from '#support/turned-clock';

const quick = passwordHashing({ log2Cost: 10 });

test('a password is verified by its hash, another one is not', async () => {
  const hash = await quick.hash('correct horse battery');

  expect(hash).toMatch(/^\$scrypt\$ln=10,r=8,p=2\$/);
  expect(await quick.verify('correct horse battery', hash)).toBe(true);
  expect(await quick.verify('correct horse batterz', hash)).toBe(false);
});

test('the parameters are at least what OWASP asks for', async () => {
  const hash = await passwordHashing().hash('correct horse battery');

  expect(hash).toMatch(/^\$scrypt\$ln=16,r=8,p=2\$[\w+/]{22}\$[\w+/]{43}$/);
});

test('the same password is hashed differently each time, and verified under older parameters', async () => {
  const older = passwordHashing({ log2Cost: 9 });
  const [one, two] = [await older.hash('same password'), await older.hash('same password')];

  expect(one).not.toBe(two);
  expect(await quick.verify('same password', two)).toBe(true);
});

test('letters that look the same are the same password', async () => {
  const hash = await quick.hash('caf\u00e9 caf\u00e9 caf\u00e9');

  expect(await quick.verify('cafe\u0301 cafe\u0301 cafe\u0301', hash)).toBe(true);
});

test('nobody has no password, and it takes the same work to say so', async () => {
  const hashing = passwordHashing({ log2Cost: 12 });
  const hash = await hashing.hash('correct horse battery');
  // What this process had of the processor, which others that want it do not change.
  const work = async (encoded: string | undefined) => {
    const start = process.cpuUsage();
    for (let turn = 0; turn < 5; turn += 1) await hashing.verify('wrong', encoded);
    const { user, system } = process.cpuUsage(start);
    return user + system;
  };
  await work(hash);

  const [known, unknown] = [await work(hash), await work(undefined)];

  expect(await hashing.verify('', undefined)).toBe(false);
  expect(unknown / known).toBeGreaterThan(0.3);
});

test('a hundred wait, the next is told that we are busy', async () => {
  const crowd = Array.from({ length: 103 }, () => quick.verify('wrong', undefined));

  const results = await Promise.allSettled(crowd);

  expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  expect(await quick.verify('wrong', undefined)).toBe(false);
});

test('48: what was allowed until the old sessions ended is over with the old password', async () => {
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
  // As the password is replaced, notes what is still allowed, and allows more by a session that is about to end.
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

  // Should we end between the two steps, the password is the old one and nothing is allowed.
  expect(stores.connection.prepare('select id from active').all()).toEqual([]);
  const tokens = await listPersonalTokens(db, user.id);
  expect(tokens.map(({ id, revokedAt }) => [id, revokedAt !== undefined])).toEqual([
    ['late', true],
    ['long_ago', true],
  ]);
});
