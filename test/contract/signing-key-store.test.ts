import { expect, test } from 'vitest';
import { insertFirstSigningKey, insertSigningKey, listSigningKeys } from '#server/db/signing-keys';
import { isPostgres } from '#server/db/transaction';
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

  test('of first keys that several processes add at the same time, one is kept', async () => {
    await using database = await open();
    // On SQLite, a connection that waits for another one blocks its process.
    const again = async () => (isPostgres(database.db) ? database.connectAgain() : database);
    const others = await Promise.all([1, 2, 3].map(again));
    const connections = [database, ...others];

    await Promise.all(
      connections.map(({ db }, number) => insertFirstSigningKey(db, key(`key ${number}`, number))),
    );

    expect(await listSigningKeys(database.db)).toHaveLength(1);
  });

  test('a duplicate kid is refused', async () => {
    await using database = await open();
    await insertSigningKey(database.db, key('a', 1));

    await expect(insertSigningKey(database.db, key('a', 2))).rejects.toThrow(/unique/i);
  });
});
