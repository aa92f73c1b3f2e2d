import { expect, test } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import { CallRetention } from '#server/activity/call-retention';
import { missingCalls } from '#server/admin/missing-calls';
import { addGaps, findGaps, type NodeGap } from '#server/db/call-gaps';
import { callsATransaction, writeCalls } from '#server/db/calls';
import { findCall } from '#server/db/find-calls';
import { insertOrganization } from '#server/db/organizations';
import { updateSettings } from '#server/db/settings';
import type { Db } from '#server/db/transaction';
import { madeCall } from '#support/made-calls';
import { onEachDatabase } from '#support/databases';
import { stillClock } from '#support/still-clock';

const startMs = 1_800_000_000_000;
const minuteMs = 60_000;
const day = 86_400;

const gap = (fromMs: number, but: Partial<NodeGap> = {}): NodeGap => ({
  organizationId: 'org_acme',
  node: 'node-1',
  reason: 'queue_full',
  fromMs,
  untilMs: fromMs,
  calls: 1,
  ...but,
});

const organizations = async (db: Db) => {
  const rows = await db.selectFrom('call_gap').select('organization_id').execute();
  return rows.map(({ organization_id: id }) => id).toSorted();
};

await onEachDatabase('gaps of recorded calls', ({ open }) => {
  test('gaps: those of a minute and node are one row, and those of all nodes are counted together', async () => {
    await using stores = await open();
    const { db } = stores;
    await addGaps(db, [
      gap(startMs, { calls: 3 }),
      gap(startMs + 500, { untilMs: startMs + 900, calls: 4 }),
    ]);
    await addGaps(db, [gap(startMs + 600, { node: 'node-2', calls: 5 })]);
    await addGaps(db, [
      gap(startMs + 10 * minuteMs),
      gap(startMs, { organizationId: 'org_other' }),
    ]);
    const found = await findGaps(db, 'org_acme', {});

    const rows = await db.selectFrom('call_gap').select('calls').execute();
    expect(rows).toHaveLength(4);
    expect(found).toEqual([
      {
        reason: 'queue_full',
        fromMs: startMs + 10 * minuteMs,
        untilMs: startMs + 10 * minuteMs,
        calls: 1,
      },
      { reason: 'queue_full', fromMs: startMs, untilMs: startMs + 900, calls: 12 },
    ]);
    expect(await findGaps(db, 'org_other', {})).toMatchObject([{ calls: 1 }]);
  });

  test('gaps: only those that a time range touches are found', async () => {
    await using stores = await open();
    const { db } = stores;
    await addGaps(db, [gap(startMs, { untilMs: startMs + 3 * minuteMs })]);
    const counts = async (fromMs: number, untilMs: number | undefined) =>
      (await findGaps(db, 'org_acme', { fromMs, untilMs })).length;

    expect(await counts(startMs + minuteMs, startMs + 2 * minuteMs)).toBe(1);
    expect(await counts(startMs + 3 * minuteMs, undefined)).toBe(1);
    expect(await counts(startMs + 3 * minuteMs + 1, undefined)).toBe(0);
    expect(await counts(0, startMs)).toBe(0);
  });

  test('gaps: an end that is dropped while the database cannot be written to is one, and its call stays unknown', async () => {
    await using stores = await open();
    const { db } = stores;
    let isFull = false;
    const log = new CallLog({
      async write(writes) {
        if (isFull) throw new Error('disk full');
        await writeCalls(db, writes);
      },
      rowsATransaction: callsATransaction(db),
      namesOf: async (_, ids) => new Map(ids.map((id) => [id, `id of ${id}`])),
      node: 'node-1',
      nowMs: () => startMs,
      failed: () => undefined,
    });
    const ended = await log.begin(madeCall());
    const dropped = await log.begin(madeCall());
    isFull = true;
    while (log.dropped === 0) log.note(madeCall(), log.pending < 20_000 ? ended : dropped);
    isFull = false;
    await log.close();

    const endOf = async ({ id }: { readonly id: string }) =>
      (await findCall(db, 'id of acme', id))?.end;
    expect([await endOf(ended), await endOf(dropped)]).toEqual(['ok', 'unknown']);
    expect(await missingCalls(db, 'id of acme', {}, false)).toEqual([
      { from: startMs / 1000, until: startMs / 1000, calls: 1, reason: 'ends_dropped' },
    ]);
  });

  test('gaps: they are kept as long as calls, and those of deleted organizations are deleted', async () => {
    await using stores = await open();
    const { db } = stores;
    const clock = stillClock();
    for (const name of ['brief', 'usual'])
      await insertOrganization(db, { id: `org_${name}`, name, createdAt: 1 });
    await updateSettings(db, 'org_brief', { callRetentionDays: 1 });
    for (const organizationId of ['org_brief', 'org_usual', 'org_gone']) {
      for (const ageDays of [0, 2, 100])
        await addGaps(db, [gap((clock.now() - ageDays * day) * 1000, { organizationId })]);
    }

    const failed = (error: unknown) => expect.fail(String(error));
    const retention = new CallRetention({ db, clock, failed });
    await retention.run();
    await retention.close();

    expect(await organizations(db)).toEqual(['org_brief', 'org_usual', 'org_usual']);
  });
});
