import { expect, test } from 'vitest';

import { usageRead } from '#server/admin/usage';
import { callerSubject, type CallTally, untimed } from '#server/model/call-counts';
import { recordCalls } from '#server/db/rollups';
import { findServer } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import { administered } from '#support/administered';
import { administrationWithServer } from '#support/administration';

/** Counts nine calls of a tool by this caller at a server of `acme`, three of which failed. */
async function count(db: Db, server: string, id: string, now: number) {
  const found = await findServer(db, 'acme', server);
  const ids = { serverId: found?.id ?? '', targetId: found?.target.id ?? '' };
  const counts = { calls: 9, toolErrors: 1, refused: 2, upstreamErrors: 0, at: now };
  const caller = { type: 'person', id } as const;
  const tallies: CallTally[] = [
    { ...ids, ...counts, kind: 'server', subject: ids.serverId, bucket: 4 },
    {
      ...ids,
      ...counts,
      kind: 'caller',
      subject: callerSubject(caller, 'refund'),
      bucket: untimed,
    },
  ];
  await recordCalls(db, tallies);
  return ids.serverId;
}

test('usage: an administrator reads who used which tool of their organization, and a member does not', async () => {
  await using at = await administered();
  const admin = await at.person('admin');
  const member = await at.person('member');
  const other = await at.person('owner', 'other');
  const id = await count(at.stores.db, 'web', 'user_2', at.clock.now());
  const wanted = { organization: 'acme', by: 'caller', server: 'web' };

  expect(await at.perform(usageRead, wanted, admin)).toMatchObject({
    items: [
      {
        server: { id, name: 'web' },
        type: 'person',
        id: 'user_2',
        name: 'p2@example.com',
        tool: 'refund',
        calls: 9,
        toolErrors: 1,
        refused: 2,
        medianMs: null,
      },
    ],
    others: { calls: 0 },
  });
  await expect(at.perform(usageRead, wanted, member)).rejects.toMatchObject({ code: 'forbidden' });
  await expect(at.perform(usageRead, wanted, other)).rejects.toMatchObject({ code: 'not_found' });
  const elsewhere = { organization: 'other', by: 'caller' };
  expect(await at.perform(usageRead, elsewhere, other)).toMatchObject({ items: [] });
});

test('usage list prints the counts by what was chosen', async () => {
  await using admin = await administrationWithServer();
  await count(admin.stores.db, 'web', 'user_gone', admin.clock.now());
  const counts = { calls: 9, tool_errors: 1, refused: 2, upstream_errors: 0 };

  expect(await admin.json('usage', 'list', 'acme/web', '--by', 'caller')).toEqual([
    { server: 'web', caller: 'user_gone', tool: 'refund', ...counts },
  ]);
  expect(await admin.json('usage', 'list', 'acme')).toMatchObject([
    { server: 'web', ...counts, median_ms: expect.any(Number) },
  ]);
  expect(await admin.json('usage', 'list', 'acme', '--by', 'key')).toEqual([]);
  await expect(admin.run('usage', 'list', 'acme', '--by=colour')).rejects.toMatchObject({
    message: "--by 'colour' is unknown",
  });
  await expect(admin.run('usage', 'list', 'acme', '--range=1y')).rejects.toMatchObject({
    message: "--range '1y' is unknown",
  });
});
