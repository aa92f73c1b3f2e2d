import { afterEach, beforeEach, expect, test } from 'vitest';

import {
  findDeployments,
  findPublished,
  listAllPublished,
  listInstalled,
  listPublished,
  mostPublished,
  publishServer,
  setInstallation,
  unpublishServer,
} from '#server/db/deployment';
import { deleteGroup, insertGroup } from '#server/db/groups';
import { deleteServer, insertServer, updateServer } from '#server/db/servers';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeOrganization, makeServer } from '#support/made-records';

const org = 'org_acme';
const sales = { id: 'srv_sales', organizationId: org };
const words = { title: 'Sales', description: 'Orders' };

await onEachDatabase('deployment of servers', ({ open }) => {
  let database: TestDatabase;

  beforeEach(async () => {
    database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'wiki');
    await makeOrganization(database, 'other');
    const groups = [
      { id: 'group_a', organizationId: org, name: 'finance' },
      { id: 'group_o', organizationId: 'org_other', name: 'theirs' },
    ];
    for (const group of groups) await insertGroup(database.db, { ...group, createdAt: madeAt });
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const install = (choice: 'nobody' | 'everyone' | 'groups', ...groupIds: string[]) =>
    setInstallation(database.db, sales, { install: choice, groupIds });
  const installed = async (...groupIds: string[]) =>
    (await listInstalled(database.db, org, groupIds)).map(({ name }) => name);
  const publish = (description = 'Orders', now = madeAt) =>
    publishServer(database.db, sales, { ...words, description }, now);

  test('installs nothing by default, and what is chosen for everyone or for groups', async () => {
    const before = await installed('group_a');
    await install('everyone');
    const forEveryone = await installed();
    await install('groups', 'group_a');

    expect(before).toEqual([]);
    expect(forEveryone).toEqual(['sales']);
    expect(await installed()).toEqual([]);
    expect(await installed('group_a')).toEqual(['sales']);
    expect(
      (await findDeployments(database.db, ['srv_sales', 'srv_wiki'])).get('srv_sales'),
    ).toEqual({
      install: 'groups',
      groups: [{ id: 'group_a', name: 'finance' }],
      publication: undefined,
    });
    await install('nobody');
    expect(await installed('group_a')).toEqual([]);
  });

  test('refuses a group of another organization, and forgets a deleted one', async () => {
    await install('groups', 'group_a');

    expect(await install('groups', 'group_o')).toBe(false);
    expect(await installed('group_a')).toEqual(['sales']);
    await deleteGroup(database.db, org, 'group_a');
    expect(await installed('group_a')).toEqual([]);
    expect((await findDeployments(database.db, ['srv_sales'])).get('srv_sales')).toMatchObject({
      install: 'groups',
      groups: [],
    });
  });

  test('installs no disabled server', async () => {
    await install('everyone');
    await updateServer(database.db, 'srv_sales', { disabledAt: madeAt });

    expect(await installed()).toEqual([]);
  });

  test('publishes words of their own, and counts the changes of them', async () => {
    await publish();
    await publish('Orders', madeAt + 5);
    const same = await findPublished(database.db, 'acme', 'sales');
    await publish('All orders', madeAt + 9);

    expect(same).toEqual({
      organization: 'acme',
      name: 'sales',
      ...words,
      version: 1,
      publishedAt: madeAt,
      updatedAt: madeAt,
    });
    expect(await listPublished(database.db, 'acme')).toMatchObject([
      { description: 'All orders', version: 2, publishedAt: madeAt, updatedAt: madeAt + 9 },
    ]);
  });

  test('shows nothing of what is closed, disabled, deleted or no longer published', async () => {
    const shown = async () => [
      await findPublished(database.db, 'acme', 'sales'),
      ...(await listPublished(database.db, 'acme')),
      ...(await listAllPublished(database.db)),
    ];
    expect(await shown()).toEqual([undefined]);
    await publish();
    expect(await shown()).toHaveLength(3);
    await updateServer(database.db, 'srv_sales', { disabledAt: madeAt });
    expect(await shown()).toEqual([undefined]);
    await updateServer(database.db, 'srv_sales', { disabledAt: null });
    await database.db.updateTable('organization').set({ disabled_at: madeAt }).execute();
    expect(await shown()).toEqual([undefined]);
    await database.db.updateTable('organization').set({ disabled_at: null }).execute();
    expect(await unpublishServer(database.db, 'srv_sales')).toBe(true);
    expect(await unpublishServer(database.db, 'srv_sales')).toBe(false);
    expect(await shown()).toEqual([undefined]);
    await publish();
    await deleteServer(database.db, 'srv_sales');
    expect(await shown()).toEqual([undefined]);
  });

  test('lists the first servers of every organization if there are too many of all together', async () => {
    const { db } = database;
    for (const name of ['a', 'b', 'c']) await makeServer(database, name);
    await makeServer(database, 'zebra', { organization: 'other' });
    const facts = { ...words, version: 1, published_at: madeAt, updated_at: madeAt };
    await db
      .insertInto('endpoint_publication')
      .values(
        ['a', 'b', 'c', 'zebra'].map((name) =>
          Object.assign({ endpoint_id: `srv_${name}` }, facts),
        ),
      )
      .execute();
    const listed = async (most?: number) =>
      (await listAllPublished(db, most)).map(({ organization, name }) => `${organization}/${name}`);

    expect(await listed()).toEqual(['acme/a', 'acme/b', 'acme/c', 'other/zebra']);
    expect(await listed(3)).toEqual(['acme/a', 'acme/b', 'other/zebra']);
  });

  test('publishes no more servers than a list can have', async () => {
    const { db } = database;
    const upstream = { kind: 'demo' } as const;
    const ids = Array.from({ length: mostPublished }, (_, n) => `srv_${n}`);
    for (const id of ids) {
      const name = id.replace('_', '-');
      const place = { organizationId: org, name, upstream, createdAt: madeAt };
      await insertServer(db, { id, targetId: `target_${id}`, ...place });
    }
    const facts = { ...words, version: 1, published_at: madeAt, updated_at: madeAt };
    await db
      .insertInto('endpoint_publication')
      .values(ids.map((id) => Object.assign({ endpoint_id: id }, facts)))
      .execute();

    expect(await publish()).toBe(false);
    expect(await publishServer(db, { id: 'srv_0', organizationId: org }, words, madeAt)).toBe(true);
  });
});
