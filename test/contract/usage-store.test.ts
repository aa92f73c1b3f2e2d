import { describe, expect, test } from 'vitest';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { storeAdapters, type Connection } from '#support/store-adapters';

const now = madeAt + 60;

async function lastUsed({ keys, clients }: Connection) {
  const [key] = await keys.list('acme');
  const client = await clients.byId('client_a');
  return [key?.lastUsedAt, client?.lastUsedAt];
}

describe.each(storeAdapters)('a UsageStore in $name', ({ open }) => {
  test('keeps when a key and a client were last used, for every connection to see', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey());
    await database.clients.add(newClient());
    const other = await database.connectAgain();

    expect(await lastUsed(other)).toEqual([undefined, undefined]);

    await database.usage.record([
      { type: 'key', id: 'key_a', usedAt: now },
      { type: 'client', id: 'client_a', usedAt: now + 1 },
    ]);

    expect(await lastUsed(other)).toEqual([now, now + 1]);
  });

  test('keeps the later of two times, whichever comes last', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey());
    for (const usedAt of [now, now - 5, now + 5, now + 4]) {
      await database.usage.record([{ type: 'key', id: 'key_a', usedAt }]);
    }

    expect(await lastUsed(database)).toEqual([now + 5, undefined]);
  });

  test('touches no other credential, and none that is not there', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey());
    await database.usage.record([
      { type: 'key', id: 'key_b', usedAt: now },
      { type: 'client', id: 'key_a', usedAt: now },
    ]);
    await database.usage.record([]);

    expect(await lastUsed(database)).toEqual([undefined, undefined]);
  });
});
