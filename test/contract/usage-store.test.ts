import { expect, test } from 'vitest';
import { findClient, insertClient } from '#server/db/clients';
import { insertKey } from '#server/db/keys';
import { updateLastUses } from '#server/db/last-uses';
import { madeAt, makeServer, newClient, newKey, keysOf } from '#support/made-records';
import { onEachDatabase, type Connection } from '#support/databases';

const now = madeAt + 60;

async function lastUsed({ db }: Connection) {
  const [key] = await keysOf(db, 'acme');
  const client = await findClient(db, 'client_a');
  return [key?.lastUsedAt, client?.lastUsedAt];
}

await onEachDatabase('last use of credentials', ({ open }) => {
  test('the last use of a key and a client is stored and seen by every connection', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey());
    await insertClient(database.db, newClient());
    const other = await database.connectAgain();

    expect(await lastUsed(other)).toEqual([undefined, undefined]);

    await updateLastUses(database.db, [
      { type: 'key', id: 'key_a', usedAt: now },
      { type: 'client', id: 'client_a', usedAt: now + 1 },
    ]);

    expect(await lastUsed(other)).toEqual([now, now + 1]);
  });

  test('the later of two times stays, in whichever order they are recorded', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey());
    for (const usedAt of [now, now - 5, now + 5, now + 4]) {
      await updateLastUses(database.db, [{ type: 'key', id: 'key_a', usedAt }]);
    }

    expect(await lastUsed(database)).toEqual([now + 5, undefined]);
  });

  test('no other credential is changed, and an unknown one is ignored', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey());
    await updateLastUses(database.db, [
      { type: 'key', id: 'key_b', usedAt: now },
      { type: 'client', id: 'key_a', usedAt: now },
    ]);
    await updateLastUses(database.db, []);

    expect(await lastUsed(database)).toEqual([undefined, undefined]);
  });
});
