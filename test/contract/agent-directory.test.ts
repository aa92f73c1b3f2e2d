import { afterEach, beforeEach, expect, test } from 'vitest';

import { insertAgent } from '#server/db/agents';
import { insertKey, revokeKey } from '#server/db/keys';
import { insertOrganization } from '#server/db/organizations';
import { insertServer, updateServer } from '#server/db/servers';
import type { AgentDirectory } from '#server/db/agent-directory';
import { madeAt, newKey } from '#support/made-records';
import { onEachDatabase, type TestDatabase } from '#support/databases';

await onEachDatabase('agent admission', ({ open }) => {
  let database: TestDatabase;
  let directory: AgentDirectory;
  const now = madeAt + 10;

  beforeEach(async () => {
    database = await open();
    directory = database.agentDirectory;
    const { db } = database;
    await insertOrganization(db, { id: 'org_acme', name: 'acme', createdAt: madeAt });
    const agent = { id: 'agent_a', organizationId: 'org_acme', name: 'berlin', createdAt: madeAt };
    await insertAgent(db, agent);
    const owner = { type: 'agent', agentId: 'agent_a' } as const;
    await insertKey(db, newKey({ owner, scopes: [] }));
    await insertKey(
      db,
      newKey({ id: 'key_b', hash: 'hash of b', owner, scopes: [], expiresAt: now + 5 }),
    );
    const upstream = { kind: 'agent', agentId: 'agent_a' } as const;
    for (const name of ['stock', 'sales']) {
      const server = { id: `srv_${name}`, organizationId: 'org_acme', name, upstream };
      await insertServer(db, { ...server, targetId: `target_${name}`, createdAt: madeAt });
    }
  });
  afterEach(() => database[Symbol.asyncDispose]());

  // A database returns the keys in any order.
  const active = async (at = now) =>
    [...(await directory.activeKeys(['key_a', 'key_b', 'x'], at))].toSorted(([one], [other]) =>
      one.localeCompare(other),
    );

  test('a key admits its agent and returns the servers bound to it', async () => {
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

  test('a server’s key admits no agent', async () => {
    const owner = { type: 'server', serverId: 'srv_sales' } as const;
    await insertKey(database.db, newKey({ id: 'key_c', hash: 'hash of c', owner }));

    expect(await directory.byKey({ keyHash: 'hash of c', now })).toBeUndefined();
  });

  test('several keys are looked up at once, and an expired one is not returned', async () => {
    expect(await active()).toEqual([
      ['key_a', ['sales', 'stock']],
      ['key_b', ['sales', 'stock']],
    ]);
    expect((await active(now + 5)).map(([id]) => id)).toEqual(['key_a']);
  });

  test('a revoked key, a revoked agent and a disabled organization are denied', async () => {
    await revokeKey(database.db, 'key_b', now);
    expect((await active()).map(([id]) => id)).toEqual(['key_a']);
    await database.db.updateTable('organization').set({ disabled_at: now }).execute();
    expect(await active()).toEqual([]);
    expect(await directory.byKey({ keyHash: 'hash of a', now })).toBeUndefined();
    await database.db.updateTable('organization').set({ disabled_at: null }).execute();
    await database.db.updateTable('agent').set({ revoked_at: now }).execute();
    expect(await active()).toEqual([]);
    expect(await directory.byKey({ keyHash: 'hash of a', now })).toBeUndefined();
  });

  test('a server that was unbound or disabled is no longer returned', async () => {
    await updateServer(database.db, 'srv_stock', { disabledAt: now });
    expect((await active()).map(([, servers]) => servers)).toEqual([['sales'], ['sales']]);
    await updateServer(database.db, 'srv_sales', { upstream: { kind: 'demo' } });
    expect((await active()).map(([, servers]) => servers)).toEqual([[], []]);
  });
});
