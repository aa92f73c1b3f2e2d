import { expect, test } from 'vitest';
import { insertOrganization } from '#server/db/organizations';
import type { CallTally } from '#server/model/call-counts';
import { periods, recordCalls } from '#server/db/rollups';
import { insertServer } from '#server/db/servers';
import {
  isUsageRange,
  rangeAt,
  readBusiestOverTime,
  readUsage,
  usageRanges,
} from '#server/usage/read-usage';
import { openDatabase } from '#support/open-database';

const now = 1_800_000_123;
const none = { toolErrors: 0, refused: 0, upstreamErrors: 0 };

test.each(Object.keys(usageRanges).filter(isUsageRange))(
  'the range %s ends with the current step, and its rows are still stored',
  (range) => {
    const { from, until, stepSeconds, steps, period } = rangeAt(range, now);

    expect(until - from).toBe(steps * stepSeconds);
    expect(until).toBeGreaterThan(now);
    expect(until - now).toBeLessThanOrEqual(stepSeconds);
    expect(from % periods[period].seconds).toBe(0);
    expect(now - from).toBeLessThan(periods[period].retentionSeconds);
  },
);

/** A database in which these calls were counted for one server. */
async function counted(tallies: readonly Partial<CallTally>[]) {
  const stores = await openDatabase();
  const { db } = stores;
  await insertOrganization(db, { id: 'org_acme', name: 'acme', createdAt: 1 });
  const upstream = { kind: 'demo' } as const;
  const server = { id: 'srv_sales', organizationId: 'org_acme', name: 'sales', upstream };
  await insertServer(db, { ...server, targetId: 'target_sales', createdAt: 1 });
  const one = { ...none, at: now - (now % 60), bucket: 3, calls: 1 };
  const ids = { serverId: 'srv_sales', targetId: 'target_sales' } as const;
  const of = { ...ids, kind: 'server', subject: 'srv_sales' } as const;
  await recordCalls(
    db,
    tallies.map((but) => Object.assign({}, one, of, but)),
  );
  return stores;
}

test('refused calls count as calls and errors, and not for how long calls took', async () => {
  await using stores = await counted([
    { bucket: -8, calls: 99, refused: 99 },
    { bucket: 40, calls: 1 },
  ]);
  const query = { organizationId: 'org_acme', range: '24h', of: { kind: 'server' } } as const;
  const { total } = await readUsage(query, now, stores);

  expect(total).toMatchObject({ calls: 100, errors: 99, refused: 99 });
  expect(total.p50).toBeGreaterThan(900);
});

test('of many subjects fifty are named, five of them over time, and the others summed up', async () => {
  await using stores = await counted(
    Array.from({ length: 60 }, (_, index) => ({
      kind: 'key',
      subject: `key_${index}`,
      calls: 100 - index,
    })),
  );
  const query = { organizationId: 'org_acme', range: '1h', of: { kind: 'key' } } as const;
  const reading = await readUsage(query, now, stores);
  const lines = await readBusiestOverTime(query, reading, now, stores);

  expect(reading.subjects).toHaveLength(50);
  expect(reading.others.calls).toBe(50 + 49 + 48 + 47 + 46 + 45 + 44 + 43 + 42 + 41);
  expect(lines.map(({ subject }) => subject)).toEqual([
    'key_0',
    'key_1',
    'key_2',
    'key_3',
    'key_4',
  ]);
});

test('calls that are recorded while usage is read leave the total the sum of its subjects', async () => {
  await using stores = await counted([{ kind: 'key', subject: 'key_1', calls: 3 }]);
  const ids = { serverId: 'srv_sales', targetId: 'target_sales' } as const;
  const during = { ...ids, kind: 'key', subject: 'key_1' } as const;
  let queries = 0;
  const db = stores.db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      queries += 1;
      const tally = { ...none, ...during, at: now - (now % 60), bucket: 3, calls: 4, refused: 1 };
      if (queries === 1) await recordCalls(stores.db, [tally]);
      return result;
    },
  });
  const query = { organizationId: 'org_acme', range: '1h', of: { kind: 'key' } } as const;
  const { total, subjects, others } = await readUsage(query, now, { db });

  expect(queries).toBe(2);
  expect(total).toMatchObject({ calls: 7, refused: 1, errors: 1 });
  expect(subjects.map((one) => one.total.calls)).toEqual([7]);
  expect(others).toEqual({ ...none, calls: 0 });
});
