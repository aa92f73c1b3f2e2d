import { expect, test } from 'vitest';

import { CallRetention } from '#server/activity/call-retention';
import { insertOrganization } from '#server/db/organizations';
import { updateSettings } from '#server/db/settings';
import type { Db } from '#server/db/transaction';
import { onEachDatabase } from '#support/databases';
import { indexCalls, recordCalls } from '#support/made-calls';
import { stillClock } from '#support/still-clock';

const day = 86_400;

async function withOrganizations(db: Db, names: readonly string[]) {
  for (const name of names) await insertOrganization(db, { id: `org_${name}`, name, createdAt: 1 });
}

const calledAt = async (db: Db, at: number, organization: string, count = 1) => {
  const endpoint = { id: `ep_${organization}`, organization, name: 'web' };
  const calls = Array.from({ length: count }, () => ({
    endpoint,
    subject: `${organization} ${at}`,
  }));
  await recordCalls(db, at * 1000, calls);
};

const kept = async (db: Db) => {
  const rows = await db.selectFrom('call_record').select('subject').orderBy('subject').execute();
  return rows.map(({ subject }) => subject);
};

const failed = (error: unknown) => {
  throw error;
};

await onEachDatabase('retention of calls', ({ open }) => {
  test('calls: each organization keeps them as long as it says, 90 days by default', async () => {
    await using stores = await open();
    const { db } = stores;
    const clock = stillClock();
    await withOrganizations(db, ['acme', 'brief']);
    await updateSettings(db, 'org_brief', { callRetentionDays: 1 });
    const ages = { old: clock.now() - 90 * day - 1, recent: clock.now() - 90 * day };
    await calledAt(db, ages.old, 'acme', 601);
    await calledAt(db, ages.recent, 'acme');
    await calledAt(db, clock.now() - day - 1, 'brief', 2);
    await calledAt(db, clock.now() - day, 'brief');

    const before = await kept(db);
    const retention = new CallRetention({ db, clock, failed });
    await retention.run();
    await retention.close();

    expect(before).toHaveLength(605);
    expect(await kept(db)).toEqual([`acme ${ages.recent}`, `brief ${clock.now() - day}`]);
  });

  test('calls: those of an organization that no longer exists are deleted with all that finds them', async () => {
    await using stores = await open();
    const { db } = stores;
    const clock = stillClock();
    await withOrganizations(db, ['gone', 'zeta']);
    await calledAt(db, clock.now() - 10, 'gone', 2);
    await calledAt(db, clock.now() - 10, 'zeta');
    await indexCalls(db, (clock.now() + day) * 1000);
    await db.deleteFrom('organization').where('id', '=', 'org_gone').execute();
    const indexed = async () => {
      const rows = await db
        .selectFrom('call_subject')
        .select('organization_id')
        .distinct()
        .execute();
      return rows.map(({ organization_id: id }) => id).toSorted();
    };
    const before = await indexed();

    const retention = new CallRetention({ db, clock, failed });
    await retention.run();
    await retention.close();

    expect(await kept(db)).toEqual([`zeta ${clock.now() - 10}`]);
    expect([before, await indexed()]).toEqual([['org_gone', 'org_zeta'], ['org_zeta']]);
  });
});
