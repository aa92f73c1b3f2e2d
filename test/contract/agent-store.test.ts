import { describe, expect, test } from 'vitest';
import { madeAt, makeOrganization, newKey } from '#support/made-records';
import { storeAdapters } from '#support/store-adapters';

const now = madeAt + 60;
const hq = { id: 'agent_1', organizationId: 'org_acme', name: 'hq', createdAt: madeAt };
const keyOf = (agentId: string, id: string) =>
  newKey({ id, hash: id, scopes: [], owner: { type: 'agent', agentId } });

describe.each(storeAdapters)('an AgentStore in $name', ({ open }) => {
  test('finds an agent by organization and name', async () => {
    await using database = await open();
    await makeOrganization(database, 'acme');
    await makeOrganization(database, 'other');

    expect(await database.agents.add(hq)).toBe(true);
    expect(await database.agents.byName('acme', 'hq')).toEqual({
      ...hq,
      lastUsedAt: undefined,
      revokedAt: undefined,
    });
    expect(await database.agents.byName('other', 'hq')).toBeUndefined();
    expect(await database.agents.byName('acme', 'branch')).toBeUndefined();
  });

  test('adds no second agent of one name to an organization', async () => {
    await using database = await open();
    await makeOrganization(database);
    await database.agents.add(hq);

    expect(await database.agents.add({ ...hq, id: 'agent_2' })).toBe(false);
  });

  test('is listed in pages, sorted, by status and a part of its name, and named by its id', async () => {
    await using database = await open();
    await makeOrganization(database);
    await makeOrganization(database, 'other');
    await database.agents.add({ ...hq, id: 'agent_2', name: 'branch', createdAt: madeAt + 1 });
    await database.agents.add(hq);
    await database.agents.add({ ...hq, id: 'agent_3', organizationId: 'org_other' });
    const acme = { organizationId: 'org_acme', descending: false, limit: 50, offset: 0 } as const;
    const page = async (but = {}) => {
      const query = { ...acme, sort: 'createdAt', ...but } as const;
      const { items, total } = await database.agentDirectory.page(query);
      return [total, ...items.map(({ id }) => id)];
    };

    expect(await page()).toEqual([2, 'agent_1', 'agent_2']);
    expect(await page({ sort: 'name' })).toEqual([2, 'agent_2', 'agent_1']);
    expect(await page({ descending: true, limit: 1, offset: 1 })).toEqual([2, 'agent_1']);
    expect(await page({ text: 'RANCH' })).toEqual([1, 'agent_2']);
    await database.agents.revoke('agent_2', now);
    expect(await page({ status: 'revoked' })).toEqual([1, 'agent_2']);
    expect(await page({ status: 'active' })).toEqual([1, 'agent_1']);
    expect(await database.agentDirectory.names(['agent_1', 'agent_3', 'agent_9'])).toEqual(
      new Map([
        ['agent_1', 'hq'],
        ['agent_3', 'hq'],
      ]),
    );
    expect(await database.agentDirectory.names([])).toEqual(new Map());
  });

  test('says that an agent was last used when any of its keys was', async () => {
    await using database = await open();
    await makeOrganization(database);
    await database.agents.add(hq);
    await database.keys.add(keyOf('agent_1', 'key_1'));
    await database.keys.add(keyOf('agent_1', 'key_2'));
    await database.usage.record([
      { type: 'key', id: 'key_1', usedAt: now },
      { type: 'key', id: 'key_2', usedAt: now - 1 },
    ]);

    expect(await database.agents.byName('acme', 'hq')).toMatchObject({ lastUsedAt: now });
  });

  test('revokes an agent and every key of it once, and no key of another', async () => {
    await using database = await open();
    await makeOrganization(database);
    await database.agents.add(hq);
    await database.agents.add({ ...hq, id: 'agent_2', name: 'branch' });
    await database.keys.add(keyOf('agent_1', 'key_1'));
    await database.keys.add(keyOf('agent_1', 'key_2'));
    await database.keys.add(keyOf('agent_2', 'key_3'));

    expect(await database.agents.revoke('agent_1', now)).toBe(true);
    expect(await database.agents.revoke('agent_1', now + 1)).toBe(false);
    expect(await database.agents.revoke('agent_9', now)).toBe(false);
    expect(await database.agents.byName('acme', 'hq')).toMatchObject({ revokedAt: now });
    expect(await database.keys.revoke('key_1', now)).toBe(false);
    expect(await database.keys.revoke('key_2', now)).toBe(false);
    expect(await database.keys.revoke('key_3', now)).toBe(true);
  });
});
