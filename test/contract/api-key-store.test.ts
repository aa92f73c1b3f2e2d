import { expect, test } from 'vitest';
import { insertAgent } from '#server/db/agents';
import { insertKey, revokeKey } from '#server/db/keys';
import { madeAt, makeServer, newKey, keysOf } from '#support/made-records';
import { onEachDatabase } from '#support/databases';

const now = madeAt + 60;

await onEachDatabase('API keys', ({ open }) => {
  test('a key is listed with every field except its value', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey({ expiresAt: now }));

    expect(await keysOf(database.db, 'acme')).toEqual([
      {
        id: 'key_a',
        name: 'laptop',
        owner: { type: 'server', serverId: 'srv_sales' },
        hint: 'mcp_…aaaa',
        scopes: ['mcp:tools:read'],
        tools: { type: 'all' },
        createdAt: madeAt,
        expiresAt: now,
        lastUsedAt: undefined,
        revokedAt: undefined,
        isSuspended: false,
        organization: 'acme',
        server: 'sales',
        agent: undefined,
      },
    ]);
  });

  test('the MCP keys of an organization or a server are listed oldest first, without agent keys', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    await makeServer(database, 'foreign', { organization: 'other' });
    await insertAgent(database.db, {
      id: 'agent_1',
      organizationId: 'org_acme',
      name: 'hq',
      createdAt: 1,
    });
    const add = (id: string, serverId: string, createdAt: number) =>
      insertKey(
        database.db,
        newKey({ id, hash: id, createdAt, owner: { type: 'server', serverId } }),
      );
    await add('key_1', 'srv_sales', 3);
    await add('key_2', 'srv_support', 2);
    await add('key_3', 'srv_sales', 1);
    await add('key_4', 'srv_foreign', 1);
    await insertKey(
      database.db,
      newKey({ id: 'key_5', hash: '5', owner: { type: 'agent', agentId: 'agent_1' } }),
    );
    const ids = async (organization: string, server?: string) =>
      (await keysOf(database.db, organization, server)).map(({ id }) => id);

    expect(await ids('acme')).toEqual(['key_3', 'key_2', 'key_1']);
    expect(await ids('acme', 'sales')).toEqual(['key_3', 'key_1']);
    expect(await ids('acme', 'foreign')).toEqual([]);
  });

  test('a duplicate hash and a key without an owner are refused', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey());

    await expect(insertKey(database.db, newKey({ id: 'key_b' }))).rejects.toThrow(/unique/i);
    await expect(
      insertKey(
        database.db,
        newKey({ id: 'key_c', hash: 'c', owner: { type: 'server', serverId: 'none' } }),
      ),
    ).rejects.toThrow(/foreign key/i);
  });

  test('revoking a key takes effect once, and the key is still listed', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey());

    expect(await revokeKey(database.db, 'key_a', now)).toBe(true);
    expect(await revokeKey(database.db, 'key_a', now + 1)).toBe(false);
    expect(await revokeKey(database.db, 'key_b', now)).toBe(false);
    expect(await keysOf(database.db, 'acme')).toMatchObject([{ revokedAt: now }]);
  });

  test('of two concurrent revocations of a key, exactly one succeeds', async () => {
    await using database = await open();
    await makeServer(database);
    await insertKey(database.db, newKey());
    const other = await database.connectAgain();
    const revoked = await Promise.all([
      revokeKey(database.db, 'key_a', now),
      revokeKey(other.db, 'key_a', now),
    ]);

    expect(revoked.filter(Boolean)).toHaveLength(1);
  });
});
