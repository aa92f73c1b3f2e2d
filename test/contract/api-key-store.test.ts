import { describe, expect, test } from 'vitest';
import { madeAt, makeServer, newKey } from '#support/made-records';
import { storeAdapters } from '#support/store-adapters';

const now = madeAt + 60;

describe.each(storeAdapters)('an ApiKeyStore in $name', ({ open }) => {
  test('lists a key with all that it was made of but its value', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey({ expiresAt: now }));

    expect(await database.keys.list('acme')).toEqual([
      {
        id: 'key_a',
        name: 'laptop',
        owner: { type: 'server', serverId: 'srv_sales' },
        hint: 'mcp_…aaaa',
        scopes: ['mcp:tools:read'],
        createdAt: madeAt,
        expiresAt: now,
        lastUsedAt: undefined,
        revokedAt: undefined,
      },
    ]);
  });

  test('lists the MCP keys of an organization or of a server, oldest first, and no agent keys', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    await makeServer(database, 'foreign', { organization: 'other' });
    await database.agents.add({
      id: 'agent_1',
      organizationId: 'org_acme',
      name: 'hq',
      createdAt: 1,
    });
    const add = (id: string, serverId: string, createdAt: number) =>
      database.keys.add(newKey({ id, hash: id, createdAt, owner: { type: 'server', serverId } }));
    await add('key_1', 'srv_sales', 3);
    await add('key_2', 'srv_support', 2);
    await add('key_3', 'srv_sales', 1);
    await add('key_4', 'srv_foreign', 1);
    await database.keys.add(
      newKey({ id: 'key_5', hash: '5', owner: { type: 'agent', agentId: 'agent_1' } }),
    );
    const ids = async (organization: string, server?: string) =>
      (await database.keys.list(organization, server)).map(({ id }) => id);

    expect(await ids('acme')).toEqual(['key_3', 'key_2', 'key_1']);
    expect(await ids('acme', 'sales')).toEqual(['key_3', 'key_1']);
    expect(await ids('acme', 'foreign')).toEqual([]);
  });

  test('refuses a second key of one hash, and a key of nobody', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey());

    await expect(database.keys.add(newKey({ id: 'key_b' }))).rejects.toThrow(/unique/i);
    await expect(
      database.keys.add(
        newKey({ id: 'key_c', hash: 'c', owner: { type: 'server', serverId: 'none' } }),
      ),
    ).rejects.toThrow(/foreign key/i);
  });

  test('revokes a key once, and still lists it', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey());

    expect(await database.keys.revoke('key_a', now)).toBe(true);
    expect(await database.keys.revoke('key_a', now + 1)).toBe(false);
    expect(await database.keys.revoke('key_b', now)).toBe(false);
    expect(await database.keys.list('acme')).toMatchObject([{ revokedAt: now }]);
  });

  test('of two that revoke a key at once one does it', async () => {
    await using database = await open();
    await makeServer(database);
    await database.keys.add(newKey());
    const other = await database.connectAgain();
    const revoked = await Promise.all([
      database.keys.revoke('key_a', now),
      other.keys.revoke('key_a', now),
    ]);

    expect(revoked.filter(Boolean)).toHaveLength(1);
  });
});
