import { expect, test } from 'vitest';
import { checkClientSecret } from '#server/db/client-secrets';
import { findClient, insertClient, revokeClient } from '#server/db/clients';
import { madeAt, makeServer, newClient, clientsOf } from '#support/made-records';
import { onEachDatabase } from '#support/databases';

const now = madeAt + 60;

await onEachDatabase('OAuth client records', ({ open }) => {
  test('a client is found with every field except its secret', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient({ jwks: '{"keys":[]}' }));

    expect(await findClient(database.db, 'client_a')).toEqual({
      id: 'client_a',
      name: 'Claude',
      serverId: 'srv_sales',
      serverPath: 'acme/sales',
      organization: 'acme',
      scopes: ['mcp:tools:read', 'mcp:tools:execute'],
      tools: { type: 'all' },
      redirectUris: ['http://127.0.0.1/callback'],
      jwks: '{"keys":[]}',
      authenticationRequired: true,
      isLatchkeyProxy: false,
      isSuspended: false,
      createdAt: madeAt,
      lastUsedAt: undefined,
      revokedAt: undefined,
    });
    expect(await findClient(database.db, 'CLIENT_A')).toBeUndefined();
  });

  test('a client has to authenticate if it has keys or registered for it', async () => {
    await using database = await open();
    await makeServer(database);
    const made = [
      newClient({ id: 'chosen', secretHash: '1' }),
      newClient({ id: 'keyed', secretHash: '2', jwks: '{"keys":[]}' }),
      newClient({ id: 'own secret', secretHash: '3', authenticationRequired: true }),
    ];
    for (const client of made) await insertClient(database.db, client);
    const requires = async ({ id }: { id: string }) =>
      (await findClient(database.db, id))?.authenticationRequired;

    expect(await Promise.all(made.map(requires))).toEqual([false, true, true]);
  });

  test('a secret is recognized by its hash, for its own client only', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());
    await insertClient(database.db, newClient({ id: 'client_b', secretHash: 'hash of b' }));

    expect(await checkClientSecret(database.db, 'client_a', 'hash of a', now)).toBe(true);
    expect(await checkClientSecret(database.db, 'client_a', 'hash of b', now)).toBe(false);
    expect(await checkClientSecret(database.db, 'client_c', 'hash of a', now)).toBe(false);
    expect(await checkClientSecret(database.db, 'client_a', 'hash of c', now)).toBe(false);
  });

  test('a secret is valid until the second in which it expires', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());
    await database.db.updateTable('client_secret').set({ expires_at: now }).execute();

    expect(await checkClientSecret(database.db, 'client_a', 'hash of a', now - 1)).toBe(true);
    expect(await checkClientSecret(database.db, 'client_a', 'hash of a', now)).toBe(false);
  });

  test('a client and its secret are added together or not at all', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());

    await expect(
      insertClient(database.db, newClient({ id: 'client_b', secretHash: 'hash of a' })),
    ).rejects.toThrow(/unique/i);
    expect(await findClient(database.db, 'client_b')).toBeUndefined();
  });

  test('a client of an unknown server is refused', async () => {
    await using database = await open();

    await expect(insertClient(database.db, newClient())).rejects.toThrow(/foreign key/i);
  });

  test('the clients of an organization or a server are listed oldest first', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    await makeServer(database, 'foreign', { organization: 'other' });
    const add = (id: string, serverId: string, createdAt: number) =>
      insertClient(database.db, newClient({ id, serverId, createdAt, secretHash: id }));
    await add('client_1', 'srv_sales', 3);
    await add('client_2', 'srv_support', 2);
    await add('client_3', 'srv_sales', 1);
    await add('client_4', 'srv_foreign', 1);
    const ids = async (organization: string, server?: string) =>
      (await clientsOf(database.db, organization, server)).map(({ id }) => id);

    expect(await ids('acme')).toEqual(['client_3', 'client_2', 'client_1']);
    expect(await ids('acme', 'sales')).toEqual(['client_3', 'client_1']);
    expect(await ids('acme', 'foreign')).toEqual([]);
    expect(await ids('nobody')).toEqual([]);
  });

  test('revoking a client takes effect once, and the client is still found and listed', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());

    expect(await revokeClient(database.db, 'client_a', now)).toBe(true);
    expect(await revokeClient(database.db, 'client_a', now + 1)).toBe(false);
    expect(await revokeClient(database.db, 'client_b', now)).toBe(false);
    expect(await findClient(database.db, 'client_a')).toMatchObject({ revokedAt: now });
    expect(await clientsOf(database.db, 'acme')).toMatchObject([{ revokedAt: now }]);
  });

  test('a write through one connection is seen by the next read through another', async () => {
    await using database = await open();
    await makeServer(database);
    const other = await database.connectAgain();
    await insertClient(database.db, newClient());

    expect(await checkClientSecret(other.db, 'client_a', 'hash of a', now)).toBe(true);

    await revokeClient(database.db, 'client_a', now);

    expect(await findClient(other.db, 'client_a')).toMatchObject({ revokedAt: now });
    expect(await revokeClient(other.db, 'client_a', now)).toBe(false);
  });
});
