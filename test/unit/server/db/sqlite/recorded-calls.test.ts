import { expect, onTestFinished, test } from 'vitest';

import type { OpenStores } from '#server/app/stores';
import { openDatabaseIn } from '#support/open-database';
import { deleteOldCalls } from '#server/db/calls';
import { markAssertionUsed } from '#server/db/client-secrets';
import { insertClient } from '#server/db/clients';
import { insertKey, revokeKey } from '#server/db/keys';
import { markChallengesSpentMeanwhile } from '#server/db/one-time';
import { queryCache } from '#server/web/dashboard/live';
import { recordCalls } from '#support/made-calls';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { temporaryFolder } from '#support/temporary-folder';

const now = madeAt + 60;

/** A database with the key `key_a` of `acme/sales`, opened by two processes. */
async function twoProcesses(): Promise<{
  readonly own: OpenStores;
  readonly other: OpenStores;
  /** Records two calls. */
  readonly record: (stores: OpenStores) => Promise<void>;
  readonly admitted: () => unknown;
}> {
  const folder = await temporaryFolder();
  const own = await openDatabaseIn(folder.path);
  const other = await openDatabaseIn(folder.path);
  onTestFinished(async () => {
    await own.close();
    await other.close();
    await folder[Symbol.asyncDispose]();
  });
  await makeServer(own, 'sales');
  await insertKey(own.db, newKey());
  const record = ({ db }: OpenStores) =>
    recordCalls(db, now * 1000, [{}, { end: 'refused', error: 'bad_params' }]);
  const admitted = () =>
    own.admissions.byKey({
      organization: 'acme',
      server: 'sales',
      keyHash: 'hash of a',
      now,
      asOf: own.admissions.changeToken(),
    });
  return { own, other, record, admitted };
}

test('recorded calls: those that this process writes and deletes leave the change token as it is', async () => {
  const { own, record } = await twoProcesses();
  const before = own.changes.changeToken();

  await record(own);
  const recorded = own.changes.changeToken();
  const beforeMs = now * 1000 + 1;
  const deleted = await deleteOldCalls(own.db, { organizationId: 'org_acme', beforeMs, limit: 9 });

  expect(recorded).toBe(before);
  expect(deleted).toBe(2);
  expect(own.changes.changeToken()).toBe(before);
  expect(own.admissions.changeToken()).toBe(before);
});

test('used assertions: those that this process records and forgets leave the change token as it is', async () => {
  const { own, other, admitted } = await twoProcesses();
  const { id: clientId } = newClient();
  await insertClient(own.db, newClient());
  const record = async ({ db }: OpenStores, hash: string, at: number) => {
    const [isFirst] = await markChallengesSpentMeanwhile(db, [{ hash, expiresAt: at + 9 }], at);
    const used = { clientId, jti: hash, expiresAt: at + 9 };
    return [isFirst, await markAssertionUsed(db, used, at)];
  };
  const before = own.changes.changeToken();

  expect(await record(own, 'one', now)).toEqual([true, true]);
  expect(await record(own, 'two', now + 10)).toEqual([true, true]);
  expect(await record(own, 'two', now + 10)).toEqual([false, false]);
  expect(own.changes.changeToken()).toBe(before);
  expect(admitted()).toMatchObject({ keyId: 'key_a' });
  await revokeKey(own.db, 'key_a', now);
  await record(own, 'three', now + 20);
  expect(admitted()).toBeUndefined();
  const revoked = own.changes.changeToken();
  expect(await record(other, 'three', now + 20)).toEqual([false, false]);
  expect(await record(other, 'four', now + 20)).toEqual([true, true]);
  expect(own.changes.changeToken()).not.toBe(revoked);
});

test('recorded calls: those that another process writes change the token', async () => {
  const { own, other, record } = await twoProcesses();
  const before = own.changes.changeToken();

  await record(other);

  expect(own.changes.changeToken()).not.toBe(before);
});

test.each(['before', 'after'])(
  'recorded calls: a key that is revoked %s them is refused',
  async (order) => {
    const { own, record, admitted } = await twoProcesses();
    await record(own);
    expect(admitted()).toMatchObject({ keyId: 'key_a' });

    if (order === 'after') await record(own);
    await revokeKey(own.db, 'key_a', now);
    if (order === 'before') await record(own);

    expect(admitted()).toBeUndefined();
  },
);

test('recorded calls: those of a transaction that is rolled back leave nothing that hides a later change', async () => {
  const { own, admitted } = await twoProcesses();
  const { connection } = own;
  expect(admitted()).toMatchObject({ keyId: 'key_a' });
  const insert = `insert into call_quarter (organization_id, quarter, claimed_at_ms) values ('org_acme', 1, 1)`;
  const rolledBack = own.db.transaction().execute(async (tx) => {
    await tx
      .insertInto('call_quarter')
      .values({ organization_id: 'org_acme', quarter: 1, claimed_at_ms: 1 })
      .execute();
    throw new Error('rolled back');
  });

  await expect(rolledBack).rejects.toThrow('rolled back');
  expect(admitted()).toMatchObject({ keyId: 'key_a' });
  connection.exec(insert);
  await revokeKey(own.db, 'key_a', now);

  expect(admitted()).toBeUndefined();
});

test('recorded calls: each query reads them again', async () => {
  const { own, record } = await twoProcesses();
  const count = async () => {
    const { rows } = await own.db
      .selectFrom('call_record')
      .select(({ fn }) => fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow();
    return rows;
  };
  const before = await count();

  await record(own);

  expect([before, await count()]).toEqual([0, 2]);
});

test('recorded calls: a page that caches what it shows notices them', async () => {
  const { own, record } = await twoProcesses();
  const cached = queryCache(own.changes);
  let reads = 0;
  const page = () => cached(['page'], async () => ({ reads: (reads += 1) }));
  await page();
  await page();

  await record(own);

  expect(await page()).toEqual({ reads: 2 });
});
