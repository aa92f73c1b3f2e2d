import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { sqliteAgentDirectory } from '#server/store/sqlite/agent-directory';
import { madeAt, newKey } from '#support/made-records';
import { openDatabase } from '#support/open-database';

// The bare connection is SQLite's own; the rest is what any adapter has to say.
describe('AgentDirectory on SQLite', () => {
  let database: Awaited<ReturnType<typeof openDatabase>>;
  let directory: ReturnType<typeof sqliteAgentDirectory>;
  const now = madeAt + 10;

  beforeEach(async () => {
    database = await openDatabase();
    directory = sqliteAgentDirectory(database.connection);
    const { organizations, agents, keys } = database;
    await organizations.add({ id: 'org_acme', name: 'acme', createdAt: madeAt });
    const agent = { id: 'agent_a', organizationId: 'org_acme', name: 'berlin', createdAt: madeAt };
    await agents.add(agent);
    const owner = { type: 'agent', agentId: 'agent_a' } as const;
    await keys.add(newKey({ owner, scopes: [] }));
    await keys.add(
      newKey({ id: 'key_b', hash: 'hash of b', owner, scopes: [], expiresAt: now + 5 }),
    );
    const upstream = { kind: 'agent', agentId: 'agent_a' } as const;
    for (const name of ['stock', 'sales']) {
      const server = { id: `srv_${name}`, organizationId: 'org_acme', name, upstream };
      await organizations.addServer({ ...server, createdAt: madeAt });
    }
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const standing = async (at = now) => [...(await directory.standing(['key_a', 'key_b', 'x'], at))];

  test('a key lets its agent in, with the servers that are bound to it', async () => {
    expect(await directory.byKey({ keyHash: 'hash of b', now })).toEqual({
      id: 'agent_a',
      name: 'berlin',
      organization: 'acme',
      keyId: 'key_b',
      keyExpiresAt: now + 5,
      servers: ['sales', 'stock'],
    });
    expect(await directory.byKey({ keyHash: 'hash of c', now })).toBeUndefined();
  });

  test('a key of a server lets nobody in', async () => {
    const owner = { type: 'server', serverId: 'srv_sales' } as const;
    await database.keys.add(newKey({ id: 'key_c', hash: 'hash of c', owner }));

    expect(await directory.byKey({ keyHash: 'hash of c', now })).toBeUndefined();
  });

  test('all keys are looked up at once, and one that expired is not among them', async () => {
    expect(await standing()).toEqual([
      ['key_a', ['sales', 'stock']],
      ['key_b', ['sales', 'stock']],
    ]);
    expect((await standing(now + 5)).map(([id]) => id)).toEqual(['key_a']);
  });

  test('a revoked key, a revoked agent and a disabled organization let nobody in', async () => {
    await database.keys.revoke('key_b', now);
    expect((await standing()).map(([id]) => id)).toEqual(['key_a']);
    await database.db.updateTable('organization').set({ disabled_at: now }).execute();
    expect(await standing()).toEqual([]);
    expect(await directory.byKey({ keyHash: 'hash of a', now })).toBeUndefined();
    await database.db.updateTable('organization').set({ disabled_at: null }).execute();
    await database.db.updateTable('agent').set({ revoked_at: now }).execute();
    expect(await standing()).toEqual([]);
    expect(await directory.byKey({ keyHash: 'hash of a', now })).toBeUndefined();
  });

  test('a server that was unbound or disabled is no longer among those that it serves', async () => {
    await database.serverDirectory.update('srv_stock', { disabledAt: now });
    expect((await standing()).map(([, servers]) => servers)).toEqual([['sales'], ['sales']]);
    await database.serverDirectory.update('srv_sales', { upstream: { kind: 'demo' } });
    expect((await standing()).map(([, servers]) => servers)).toEqual([[], []]);
  });

  test('it tells that something was written, and nothing when not', async () => {
    const before = directory.written();
    expect(directory.written()).toBe(before);
    await database.keys.revoke('key_b', now);

    expect(directory.written()).not.toBe(before);
  });
});
