import { expect, test } from 'vitest';

import { passwordHashing } from '#server/people/password-hashing';

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
  const time = async (encoded: string | undefined) => {
    const start = performance.now();
    for (let turn = 0; turn < 5; turn += 1) await hashing.verify('wrong', encoded);
    return performance.now() - start;
  };
  await time(hash);

  const [known, unknown] = [await time(hash), await time(undefined)];

  expect(await hashing.verify('', undefined)).toBe(false);
  expect(unknown / known).toBeGreaterThan(0.3);
});

test('a hundred wait, the next is told that we are busy', async () => {
  const crowd = Array.from({ length: 103 }, () => quick.verify('wrong', undefined));

  const results = await Promise.allSettled(crowd);

  expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  expect(await quick.verify('wrong', undefined)).toBe(false);
});
