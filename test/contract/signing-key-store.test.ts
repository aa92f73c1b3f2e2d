import { describe, expect, test } from 'vitest';
import { storeAdapters } from '#support/store-adapters';

const key = (kid: string, createdAt: number) => ({
  kid,
  publicJwk: `{"kid":"${kid}"}`,
  encryptedPrivateKey: 'sealed',
  createdAt,
});

describe.each(storeAdapters)('a SigningKeyStore in $name', ({ open }) => {
  test('lists nothing before a key was added', async () => {
    await using database = await open();

    expect(await database.signingKeys.list()).toEqual([]);
  });

  test('lists every key as it was added, newest first, to every connection', async () => {
    await using database = await open();
    const other = await database.connectAgain();
    await database.signingKeys.add(key('middle', 2));
    await database.signingKeys.add(key('oldest', 1));
    await other.signingKeys.add(key('newest', 3));

    expect(await other.signingKeys.list()).toEqual([
      key('newest', 3),
      key('middle', 2),
      key('oldest', 1),
    ]);
  });

  test('orders keys of one second alike at every reading, so that all nodes sign with one', async () => {
    await using database = await open();
    for (const kid of ['b', 'c', 'a']) await database.signingKeys.add(key(kid, 1));

    expect((await database.signingKeys.list()).map(({ kid }) => kid)).toEqual(['a', 'b', 'c']);
  });

  test('refuses a second key of one kid', async () => {
    await using database = await open();
    await database.signingKeys.add(key('a', 1));

    await expect(database.signingKeys.add(key('a', 2))).rejects.toThrow(/unique/i);
  });
});
