import { expect, test } from 'vitest';
import { listSigningKeys, insertSigningKey } from '#server/db/signing-keys';
import { onEachDatabase } from '#support/databases';

const key = (kid: string, createdAt: number) => ({
  kid,
  publicJwk: `{"kid":"${kid}"}`,
  encryptedPrivateKey: 'sealed',
  createdAt,
});

await onEachDatabase('signing keys', ({ open }) => {
  test('the list is empty before a key is added', async () => {
    await using database = await open();

    expect(await listSigningKeys(database.db)).toEqual([]);
  });

  test('every key is listed as it was added, newest first, to every connection', async () => {
    await using database = await open();
    const other = await database.connectAgain();
    await insertSigningKey(database.db, key('middle', 2));
    await insertSigningKey(database.db, key('oldest', 1));
    await insertSigningKey(other.db, key('newest', 3));

    expect(await listSigningKeys(other.db)).toEqual([
      key('newest', 3),
      key('middle', 2),
      key('oldest', 1),
    ]);
  });

  test('keys of the same second have a stable order, so that all nodes sign with the same one', async () => {
    await using database = await open();
    for (const kid of ['b', 'c', 'a']) await insertSigningKey(database.db, key(kid, 1));

    expect((await listSigningKeys(database.db)).map(({ kid }) => kid)).toEqual(['a', 'b', 'c']);
  });

  test('a duplicate kid is refused', async () => {
    await using database = await open();
    await insertSigningKey(database.db, key('a', 1));

    await expect(insertSigningKey(database.db, key('a', 2))).rejects.toThrow(/unique/i);
  });
});
