import { expect, test } from 'vitest';
import { insertAgent } from '#server/db/agents';
import { findOrganization, insertOrganization } from '#server/db/organizations';
import { updateServer, findServer, insertServer } from '#server/db/servers';
import { madeAt, makeOrganization, makeServer } from '#support/made-records';
import { onEachDatabase } from '#support/databases';

await onEachDatabase('organizations', ({ open }) => {
  test('an organization is found by its name, as it was added', async () => {
    await using database = await open();
    const acme = { id: 'org_1', name: 'acme', createdAt: madeAt };

    expect(await insertOrganization(database.db, acme)).toBe(true);
    expect(await findOrganization(database.db, 'acme')).toEqual(acme);
    expect(await findOrganization(database.db, 'Acme')).toBeUndefined();
    expect(await findOrganization(database.db, 'other')).toBeUndefined();
  });

  test('a second organization of the same name is refused, and the first stays as it is', async () => {
    await using database = await open();
    await makeOrganization(database, 'acme');

    expect(await insertOrganization(database.db, { id: 'org_2', name: 'acme', createdAt: 2 })).toBe(
      false,
    );
    expect(await findOrganization(database.db, 'acme')).toMatchObject({ id: 'org_acme' });
  });

  test('of several concurrent additions of one name, exactly one succeeds', async () => {
    await using database = await open();
    const connections = [database, await database.connectAgain(), await database.connectAgain()];
    const added = await Promise.all(
      connections.map(({ db }, at) =>
        insertOrganization(db, { id: `org_${at}`, name: 'acme', createdAt: madeAt }),
      ),
    );

    expect(added.filter(Boolean)).toHaveLength(1);
  });

  test.each([
    { kind: 'demo' },
    { kind: 'http', url: 'https://mcp.example.com/mcp?tenant=1' },
    { kind: 'agent', agentId: 'agent_1' },
  ] as const)('a server is found with its upstream: $kind', async (upstream) => {
    await using database = await open();
    await makeOrganization(database);
    await insertAgent(database.db, {
      id: 'agent_1',
      organizationId: 'org_acme',
      name: 'hq',
      createdAt: madeAt,
    });
    await makeServer(database, 'sales', { upstream });

    expect(await findServer(database.db, 'acme', 'sales')).toEqual({
      id: 'srv_sales',
      organization: 'acme',
      name: 'sales',
      revision: 0,
      createdAt: madeAt,
      target: {
        id: 'target_sales',
        organization: 'acme',
        name: 'sales',
        upstream,
        hiddenTools: [],
        changedTools: 'flag',
        newTools: 'offer',
        offered: { withheld: {}, open: {}, readOnly: new Set() },
      },
    });
  });

  test('a server is found in its own organization only', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { organization: 'acme' });
    await makeOrganization(database, 'other');

    expect(await findServer(database.db, 'other', 'sales')).toBeUndefined();
    expect(await findServer(database.db, 'acme', 'support')).toBeUndefined();
  });

  test('a server name is unique in its organization, and free in another', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { organization: 'acme' });
    await makeOrganization(database, 'other');
    const again = { name: 'sales', upstream: { kind: 'demo' }, createdAt: madeAt } as const;
    const add = (id: string, organizationId: string) =>
      insertServer(database.db, { ...again, id, targetId: `target_of_${id}`, organizationId });

    expect(await add('srv_2', 'org_acme')).toBe(false);
    expect(await add('srv_3', 'org_other')).toBe(true);
  });

  test('a server of an unknown organization is refused', async () => {
    await using database = await open();
    const ids = { id: 's', targetId: 't', organizationId: 'none' } as const;
    const server = { ...ids, name: 'x', createdAt: madeAt } as const;

    await expect(
      insertServer(database.db, { ...server, upstream: { kind: 'demo' } }),
    ).rejects.toThrow(/foreign key/i);
  });

  test('the hidden tools of a server are exactly those that were set last', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    await updateServer(database.db, 'srv_sales', { hiddenTools: ['drop', 'delete "all"'] });
    await updateServer(database.db, 'srv_sales', { hiddenTools: ['drop', 'é'] });

    expect(await findServer(database.db, 'acme', 'sales')).toMatchObject({
      target: { hiddenTools: ['drop', 'é'] },
    });
    expect(await findServer(database.db, 'acme', 'support')).toMatchObject({
      target: { hiddenTools: [], changedTools: 'flag', newTools: 'offer' },
    });
  });

  test('a write through one connection is seen by the next read through another', async () => {
    await using database = await open();
    const other = await database.connectAgain();
    await findOrganization(other.db, 'acme');
    await makeServer(database);
    await updateServer(database.db, 'srv_sales', { hiddenTools: ['drop'] });

    expect(await findServer(other.db, 'acme', 'sales')).toMatchObject({
      target: { hiddenTools: ['drop'] },
    });
  });
});
