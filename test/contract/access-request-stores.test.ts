import { afterEach, beforeEach, expect, test } from 'vitest';

import {
  decideAccessRequest,
  findAccessRequest,
  insertAccessRequest,
  listAccessRequests,
  listRequestableServers,
  lockOpeningGroups,
  mostOpenRequests,
  mostRequestsADay,
  newestRequestsOf,
  openAccessRequests,
} from '#server/db/access-requests';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { insertUser, removeMember } from '#server/db/people';
import { setServerAccess } from '#server/db/server-access';
import { transaction } from '#server/db/transaction';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeServer } from '#support/made-records';

const now = madeAt + 60;
const org = 'org_acme';
const [sales, support] = ['group_sales', 'group_support'];

await onEachDatabase('requests for access', ({ open }) => {
  let database: TestDatabase;

  /** People may request access to the server, which is for the group Sales; Dana is in no group. */
  beforeEach(async () => {
    database = await open();
    const { db } = database;
    await makeServer(database, 'sales');
    const lee = { id: 'user_lee', email: 'lee@example.com', createdAt: madeAt };
    const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: madeAt };
    await insertUser(db, lee, { organizationId: org, role: 'owner' });
    await insertUser(db, dana, { organizationId: org, role: 'member' });
    for (const [id, name] of [
      [sales, 'Sales'],
      [support, 'Support'],
    ] as const) {
      await insertGroup(db, { id, organizationId: org, name, createdAt: madeAt });
    }
    const choice = { access: 'groups', groupIds: [sales], isRequestable: true } as const;
    await setServerAccess(db, 'srv_sales', choice);
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const ask = (id: string, at = now, server = 'sales') =>
    insertAccessRequest(
      database.db,
      { id, organizationId: org, server, userId: 'user_dana', reason: 'the quarter ends' },
      at,
    );
  const decline = (id: string, at = now) =>
    decideAccessRequest(database.db, org, id, {
      status: 'declined',
      by: 'user:user_lee',
      at,
      answer: 'ask Eve',
    });
  const openIds = async () =>
    (await openAccessRequests(database.db, org)).items.map(({ id }) => id);

  test('one is open for each person and server, until it is decided', async () => {
    expect(await ask('request_1')).toBe('done');
    expect(await ask('request_2')).toBe('asked');
    expect(await openIds()).toEqual(['request_1']);
    expect(await decline('request_1')).toBe(true);
    expect(await ask('request_3')).toBe('done');

    expect(await openIds()).toEqual(['request_3']);
    const newest = await newestRequestsOf(database.db, org, 'user_dana');
    expect(newest.get('srv_sales')).toMatchObject({ id: 'request_3', status: 'open' });
  });

  test('211: two that are made at the same time are one', async () => {
    const answers = await Promise.all(['request_1', 'request_2'].map((id) => ask(id)));

    expect(answers.toSorted()).toEqual(['asked', 'done']);
    expect(await openIds()).toHaveLength(1);
  });

  test('211: of two decisions at the same time one counts', async () => {
    await ask('request_1');
    const grant = transaction(database.db, (tx) =>
      decideAccessRequest(tx, org, 'request_1', {
        status: 'granted',
        by: 'user:user_lee',
        at: now,
        group: 'Sales',
      }),
    );
    const both = await Promise.all([grant, decline('request_1')]);

    expect(both.filter((isMine) => isMine)).toHaveLength(1);
    const request = await findAccessRequest(database.db, org, 'request_1');
    expect(request).toMatchObject(
      both[0] ? { status: 'granted', group: 'Sales' } : { status: 'declined', answer: 'ask Eve' },
    );
  });

  test('210: a server that may not be asked for is as unknown as one that does not exist', async () => {
    const choice = { access: 'groups', groupIds: [sales], isRequestable: false } as const;
    await setServerAccess(database.db, 'srv_sales', choice);

    expect(await ask('request_1')).toBe('unknown');
    expect(await ask('request_1', now, 'nowhere')).toBe('unknown');
    expect(await listRequestableServers(database.db, 'user_dana', org, 10)).toEqual([]);
  });

  test('only who cannot use a server may ask for it', async () => {
    expect(await listRequestableServers(database.db, 'user_dana', org, 10)).toMatchObject([
      { name: 'sales' },
    ]);
    await ask('request_1');
    await insertGroupMember(database.db, org, sales, 'user_dana');

    expect(await ask('request_2')).toBe('usable');
    expect(await listRequestableServers(database.db, 'user_dana', org, 10)).toEqual([]);
    expect(await openIds()).toEqual([]);
    const request = await findAccessRequest(database.db, org, 'request_1');
    expect(request).toMatchObject({ status: 'open', isUsable: true });
  });

  test('211: a person may have some open and make some in a day', async () => {
    for (let count = 0; count < mostOpenRequests; count += 1) {
      const name = `server-${count}`;
      await makeServer(database, name);
      const choice = { access: 'groups', groupIds: [], isRequestable: true } as const;
      await setServerAccess(database.db, `srv_${name}`, choice);
      expect(await ask(`request_${count}`, now, name)).toBe('done');
    }
    expect(await ask('request_more')).toBe('too-many');
    for (let count = 0; count < mostOpenRequests; count += 1) await decline(`request_${count}`);
    for (let count = mostOpenRequests; count < mostRequestsADay; count += 1) {
      expect(await ask(`request_${count}`)).toBe('done');
      await decline(`request_${count}`);
    }

    expect(await ask('request_more')).toBe('too-many');
    expect(await ask('request_more', now + 86_400)).toBe('done');
    const decided = { status: 'decided', limit: 200, offset: 0 } as const;
    expect((await listAccessRequests(database.db, org, decided)).total).toBe(mostRequestsADay);
    await decline('request_more', now + 86_400);
    await ask('request_last', now + 100 * 86_400);
    expect((await listAccessRequests(database.db, org, decided)).total).toBe(0);
  });

  test('211: leave with the person', async () => {
    await ask('request_1');
    await removeMember(database.db, org, 'user_dana', 'member');

    expect(await findAccessRequest(database.db, org, 'request_1')).toBeUndefined();
    expect(await openIds()).toEqual([]);
  });

  test('210: belong to one organization', async () => {
    await ask('request_1');

    expect(await findAccessRequest(database.db, 'org_other', 'request_1')).toBeUndefined();
    expect(
      await decideAccessRequest(database.db, 'org_other', 'request_1', {
        status: 'declined',
        by: 'operator',
        at: now,
      }),
    ).toBe(false);
    expect((await openAccessRequests(database.db, 'org_other')).total).toBe(0);
  });

  test('are granted by a group that opens the server, and by no other', async () => {
    const groups = await transaction(database.db, (tx) => lockOpeningGroups(tx, org, 'srv_sales'));
    expect(groups).toEqual([{ id: sales, name: 'Sales' }]);
    await setServerAccess(database.db, 'srv_sales', { access: 'everyone', groupIds: [] });

    const none = await transaction(database.db, (tx) => lockOpeningGroups(tx, org, 'srv_sales'));
    expect(none).toEqual([]);
  });
});
