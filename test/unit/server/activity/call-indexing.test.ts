import { sql } from 'kysely';
import { expect, test } from 'vitest';

import { CallIndexing } from '#server/activity/call-indexing';
import { callQuarterMs } from '#server/db/calls';
import { insertOrganization } from '#server/db/organizations';
import { madeCall, recordCalls } from '#support/made-calls';
import { openDatabase } from '#support/open-database';

test('call index: an organization whose calls cannot be indexed keeps those of no other one from being, and is tried again', async () => {
  await using stores = await openDatabase();
  const { db } = stores;
  const startMs = 2_000_000 * callQuarterMs;
  for (const name of ['broken', 'later']) {
    await insertOrganization(db, { id: `org_${name}`, name, createdAt: 1 });
    const endpoint = { ...madeCall().endpoint, organization: name };
    await recordCalls(db, startMs, [{ endpoint }]);
  }
  await sql`create trigger breaking before insert on call_subject when new.organization_id = 'org_broken'
    begin select raise(abort, 'broken'); end`.execute(db);
  const errors: unknown[] = [];
  let nowMs = startMs;
  const indexing = new CallIndexing({
    db,
    nowMs: () => nowMs,
    failed: (error) => errors.push(error),
    commitMs: 0,
  });
  await indexing.run();
  const indexed = async () =>
    (
      await db.selectFrom('call_quarter').select('organization_id').where('calls', '>', 0).execute()
    ).map((row) => row.organization_id);

  nowMs = startMs + 2 * callQuarterMs;
  await indexing.run();
  const first = await indexed();
  await sql`drop trigger breaking`.execute(db);
  // The claim of the first attempt is valid for ten minutes.
  nowMs += 700_000;
  await indexing.run();
  await indexing.close();

  expect([errors.length, first]).toEqual([1, ['org_later']]);
  expect(await indexed()).toEqual(['org_broken', 'org_later']);
});
