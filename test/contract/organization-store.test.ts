import { describe, expect, test } from 'vitest';
import { madeAt, makeOrganization, makeServer } from '#support/made-records';
import { storeAdapters } from '#support/store-adapters';

describe.each(storeAdapters)('an OrganizationStore in $name', ({ open }) => {
  test('finds an organization by its name as it was added', async () => {
    await using database = await open();
    const acme = { id: 'org_1', name: 'acme', createdAt: madeAt };

    expect(await database.organizations.add(acme)).toBe(true);
    expect(await database.organizations.byName('acme')).toEqual(acme);
    expect(await database.organizations.byName('Acme')).toBeUndefined();
    expect(await database.organizations.byName('other')).toBeUndefined();
  });

  test('adds no second organization of one name, and leaves the first as it is', async () => {
    await using database = await open();
    await makeOrganization(database, 'acme');

    expect(await database.organizations.add({ id: 'org_2', name: 'acme', createdAt: 2 })).toBe(
      false,
    );
    expect(await database.organizations.byName('acme')).toMatchObject({ id: 'org_acme' });
  });

  test('of many that add one name at once one succeeds', async () => {
    await using database = await open();
    const connections = [database, await database.connectAgain(), await database.connectAgain()];
    const added = await Promise.all(
      connections.map(({ organizations }, at) =>
        organizations.add({ id: `org_${at}`, name: 'acme', createdAt: madeAt }),
      ),
    );

    expect(added.filter(Boolean)).toHaveLength(1);
  });

  test.each([
    { kind: 'demo' },
    { kind: 'http', url: 'https://mcp.example.com/mcp?tenant=1' },
    { kind: 'agent', agentId: 'agent_1' },
  ] as const)('finds a server with its upstream: $kind', async (upstream) => {
    await using database = await open();
    await makeOrganization(database);
    await database.agents.add({
      id: 'agent_1',
      organizationId: 'org_acme',
      name: 'hq',
      createdAt: madeAt,
    });
    await makeServer(database, 'sales', { upstream });

    expect(await database.organizations.serverByName('acme', 'sales')).toEqual({
      id: 'srv_sales',
      organization: 'acme',
      name: 'sales',
      upstream,
      hiddenTools: [],
      changedTools: 'flag',
      withheldTools: [],
      revision: 0,
      createdAt: madeAt,
    });
  });

  test('finds a server in its own organization only', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { organization: 'acme' });
    await makeOrganization(database, 'other');

    expect(await database.organizations.serverByName('other', 'sales')).toBeUndefined();
    expect(await database.organizations.serverByName('acme', 'support')).toBeUndefined();
  });

  test('adds no second server of one name to an organization, and may to another', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { organization: 'acme' });
    await makeOrganization(database, 'other');
    const again = { name: 'sales', upstream: { kind: 'demo' }, createdAt: madeAt } as const;
    const add = (id: string, organizationId: string) =>
      database.organizations.addServer({ ...again, id, organizationId });

    expect(await add('srv_2', 'org_acme')).toBe(false);
    expect(await add('srv_3', 'org_other')).toBe(true);
  });

  test('refuses a server of an organization that is not there', async () => {
    await using database = await open();
    const server = { id: 's', organizationId: 'none', name: 'x', createdAt: madeAt } as const;

    await expect(
      database.organizations.addServer({ ...server, upstream: { kind: 'demo' } }),
    ).rejects.toThrow(/foreign key/i);
  });

  test('hides exactly the tools it was last told, of that server', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    await database.organizations.hideTools('srv_sales', ['drop', 'delete "all"']);
    await database.organizations.hideTools('srv_sales', ['drop', 'é']);

    expect(await database.organizations.serverByName('acme', 'sales')).toMatchObject({
      hiddenTools: ['drop', 'é'],
    });
    expect(await database.organizations.serverByName('acme', 'support')).toMatchObject({
      hiddenTools: [],
      changedTools: 'flag',
      withheldTools: [],
    });
  });

  test('shows a write through one connection to the next read through another', async () => {
    await using database = await open();
    const other = await database.connectAgain();
    await other.organizations.byName('acme');
    await makeServer(database);
    await database.organizations.hideTools('srv_sales', ['drop']);

    expect(await other.organizations.serverByName('acme', 'sales')).toMatchObject({
      hiddenTools: ['drop'],
    });
  });
});
