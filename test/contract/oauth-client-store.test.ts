import { describe, expect, test } from 'vitest';
import { madeAt, makeServer, newClient } from '#support/made-records';
import { storeAdapters } from '#support/store-adapters';

const now = madeAt + 60;

describe.each(storeAdapters)('an OAuthClientStore in $name', ({ open }) => {
  test('finds a client with all that it was made of but its secret', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient({ jwks: '{"keys":[]}' }));

    expect(await database.clients.byId('client_a')).toEqual({
      id: 'client_a',
      name: 'Claude',
      serverId: 'srv_sales',
      serverPath: 'acme/sales',
      scopes: ['mcp:tools:read', 'mcp:tools:execute'],
      redirectUris: ['http://127.0.0.1/callback'],
      jwks: '{"keys":[]}',
      authenticationRequired: true,
      createdAt: madeAt,
      lastUsedAt: undefined,
      revokedAt: undefined,
    });
    expect(await database.clients.byId('CLIENT_A')).toBeUndefined();
  });

  test('says whether a client has to authenticate: with keys, or where it registered so', async () => {
    await using database = await open();
    await makeServer(database);
    const made = [
      newClient({ id: 'chosen', secretHash: '1' }),
      newClient({ id: 'keyed', secretHash: '2', jwks: '{"keys":[]}' }),
      newClient({ id: 'own secret', secretHash: '3', authenticationRequired: true }),
    ];
    for (const client of made) await database.clients.add(client);
    const requires = async ({ id }: { id: string }) =>
      (await database.clients.byId(id))?.authenticationRequired;

    expect(await Promise.all(made.map(requires))).toEqual([false, true, true]);
  });

  test('knows the secret of a client by its hash, and of no other client', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());
    await database.clients.add(newClient({ id: 'client_b', secretHash: 'hash of b' }));

    expect(await database.clients.hasSecret('client_a', 'hash of a', now)).toBe(true);
    expect(await database.clients.hasSecret('client_a', 'hash of b', now)).toBe(false);
    expect(await database.clients.hasSecret('client_c', 'hash of a', now)).toBe(false);
    expect(await database.clients.hasSecret('client_a', 'hash of c', now)).toBe(false);
  });

  test('knows a secret until the second from which it no longer counts', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());
    await database.db.updateTable('client_secret').set({ revoked_at: now }).execute();

    expect(await database.clients.hasSecret('client_a', 'hash of a', now - 1)).toBe(true);
    expect(await database.clients.hasSecret('client_a', 'hash of a', now)).toBe(false);
  });

  test('adds a client and its secret together or not at all', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());

    await expect(
      database.clients.add(newClient({ id: 'client_b', secretHash: 'hash of a' })),
    ).rejects.toThrow(/unique/i);
    expect(await database.clients.byId('client_b')).toBeUndefined();
  });

  test('refuses a client of a server that is not there', async () => {
    await using database = await open();

    await expect(database.clients.add(newClient())).rejects.toThrow(/foreign key/i);
  });

  test('lists the clients of an organization or of a server, oldest first', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    await makeServer(database, 'foreign', { organization: 'other' });
    const add = (id: string, serverId: string, createdAt: number) =>
      database.clients.add(newClient({ id, serverId, createdAt, secretHash: id }));
    await add('client_1', 'srv_sales', 3);
    await add('client_2', 'srv_support', 2);
    await add('client_3', 'srv_sales', 1);
    await add('client_4', 'srv_foreign', 1);
    const ids = async (organization: string, server?: string) =>
      (await database.clients.list(organization, server)).map(({ id }) => id);

    expect(await ids('acme')).toEqual(['client_3', 'client_2', 'client_1']);
    expect(await ids('acme', 'sales')).toEqual(['client_3', 'client_1']);
    expect(await ids('acme', 'foreign')).toEqual([]);
    expect(await ids('nobody')).toEqual([]);
  });

  test('revokes a client once, and still finds and lists it', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());

    expect(await database.clients.revoke('client_a', now)).toBe(true);
    expect(await database.clients.revoke('client_a', now + 1)).toBe(false);
    expect(await database.clients.revoke('client_b', now)).toBe(false);
    expect(await database.clients.byId('client_a')).toMatchObject({ revokedAt: now });
    expect(await database.clients.list('acme')).toMatchObject([{ revokedAt: now }]);
  });

  test('shows a write through one connection to the next read through another', async () => {
    await using database = await open();
    await makeServer(database);
    const other = await database.connectAgain();
    await database.clients.add(newClient());

    expect(await other.clients.hasSecret('client_a', 'hash of a', now)).toBe(true);

    await database.clients.revoke('client_a', now);

    expect(await other.clients.byId('client_a')).toMatchObject({ revokedAt: now });
    expect(await other.clients.revoke('client_a', now)).toBe(false);
  });
});
