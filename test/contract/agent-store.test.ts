import { expect, test } from 'vitest';
import {
  findAgentByName,
  insertAgent,
  listAgentNames,
  listAgents,
  revokeAgent,
} from '#server/db/agents';
import { insertKey, revokeKey } from '#server/db/keys';
import { updateLastUses } from '#server/db/last-uses';
import { madeAt, makeOrganization, newKey } from '#support/made-records';
import { onEachDatabase } from '#support/databases';

const now = madeAt + 60;
const hq = { id: 'agent_1', organizationId: 'org_acme', name: 'hq', createdAt: madeAt };
const keyOf = (agentId: string, id: string) =>
  newKey({ id, hash: id, scopes: [], owner: { type: 'agent', agentId } });

await onEachDatabase('agents', ({ open }) => {
  test('an agent is found by organization and name', async () => {
    await using database = await open();
    await makeOrganization(database, 'acme');
    await makeOrganization(database, 'other');

    expect(await insertAgent(database.db, hq)).toBe(true);
    expect(await findAgentByName(database.db, 'acme', 'hq')).toEqual({
      ...hq,
      lastUsedAt: undefined,
      revokedAt: undefined,
      isSuspended: false,
    });
    expect(await findAgentByName(database.db, 'other', 'hq')).toBeUndefined();
    expect(await findAgentByName(database.db, 'acme', 'branch')).toBeUndefined();
  });

  test('a name that the organization already uses is refused', async () => {
    await using database = await open();
    await makeOrganization(database);
    await insertAgent(database.db, hq);

    expect(await insertAgent(database.db, { ...hq, id: 'agent_2' })).toBe(false);
  });

  test('are listed by page, sorted, by status and part of a name, and found by id', async () => {
    await using database = await open();
    await makeOrganization(database);
    await makeOrganization(database, 'other');
    await insertAgent(database.db, { ...hq, id: 'agent_2', name: 'branch', createdAt: madeAt + 1 });
    await insertAgent(database.db, hq);
    await insertAgent(database.db, { ...hq, id: 'agent_3', organizationId: 'org_other' });
    const acme = { organizationId: 'org_acme', descending: false, limit: 50, offset: 0 } as const;
    const page = async (but = {}) => {
      const query = { ...acme, sort: 'createdAt', ...but } as const;
      const { items, total } = await listAgents(database.db, query);
      return [total, ...items.map(({ id }) => id)];
    };

    expect(await page()).toEqual([2, 'agent_1', 'agent_2']);
    expect(await page({ sort: 'name' })).toEqual([2, 'agent_2', 'agent_1']);
    expect(await page({ descending: true, limit: 1, offset: 1 })).toEqual([2, 'agent_1']);
    expect(await page({ text: 'RANCH' })).toEqual([1, 'agent_2']);
    await revokeAgent(database.db, 'agent_2', now);
    expect(await page({ status: 'revoked' })).toEqual([1, 'agent_2']);
    expect(await page({ status: 'active' })).toEqual([1, 'agent_1']);
    expect(await listAgentNames(database.db, ['agent_1', 'agent_3', 'agent_9'])).toEqual(
      new Map([
        ['agent_1', 'hq'],
        ['agent_3', 'hq'],
      ]),
    );
    expect(await listAgentNames(database.db, [])).toEqual(new Map());
  });

  test('an agent’s last use is the last use of any of its keys', async () => {
    await using database = await open();
    await makeOrganization(database);
    await insertAgent(database.db, hq);
    await insertKey(database.db, keyOf('agent_1', 'key_1'));
    await insertKey(database.db, keyOf('agent_1', 'key_2'));
    await updateLastUses(database.db, [
      { type: 'key', id: 'key_1', usedAt: now },
      { type: 'key', id: 'key_2', usedAt: now - 1 },
    ]);

    expect(await findAgentByName(database.db, 'acme', 'hq')).toMatchObject({ lastUsedAt: now });
  });

  test('revoking an agent takes effect once and revokes all its keys, but no other agent’s', async () => {
    await using database = await open();
    await makeOrganization(database);
    await insertAgent(database.db, hq);
    await insertAgent(database.db, { ...hq, id: 'agent_2', name: 'branch' });
    await insertKey(database.db, keyOf('agent_1', 'key_1'));
    await insertKey(database.db, keyOf('agent_1', 'key_2'));
    await insertKey(database.db, keyOf('agent_2', 'key_3'));

    expect(await revokeAgent(database.db, 'agent_1', now)).toBe(true);
    expect(await revokeAgent(database.db, 'agent_1', now + 1)).toBe(false);
    expect(await revokeAgent(database.db, 'agent_9', now)).toBe(false);
    expect(await findAgentByName(database.db, 'acme', 'hq')).toMatchObject({ revokedAt: now });
    expect(await revokeKey(database.db, 'key_1', now)).toBe(false);
    expect(await revokeKey(database.db, 'key_2', now)).toBe(false);
    expect(await revokeKey(database.db, 'key_3', now)).toBe(true);
  });
});
