import { expect, test, vi } from 'vitest';
import { readUsage } from '#server/usage/read-usage';
import type { RollupReader, RollupSpan } from '#server/usage/rollup-reader';
import { isUsageRange, rangeAt, usageRanges } from '#server/usage/usage-range';
import { periods } from '#server/usage/period';

const now = 1_800_000_123;
const none = { toolErrors: 0, refused: 0, upstreamErrors: 0 };

test.each(Object.keys(usageRanges).filter(isUsageRange))(
  'the range %s ends with the step that has begun, and its rows are still kept',
  (range) => {
    const { from, until, stepSeconds, steps, period } = rangeAt(range, now);

    expect(until - from).toBe(steps * stepSeconds);
    expect(until).toBeGreaterThan(now);
    expect(until - now).toBeLessThanOrEqual(stepSeconds);
    expect(from % periods[period].seconds).toBe(0);
    expect(now - from).toBeLessThan(periods[period].keptSeconds);
  },
);

test('refused calls count as calls and errors, and not for how long calls took', async () => {
  const read: RollupReader['read'] = async () => [
    { ...none, at: now, bucket: -8, calls: 99, refused: 99 },
    { ...none, at: now, bucket: 40, calls: 1 },
  ];
  const [ofServers, has] = [async () => [], async () => true];
  const rollupReader = { read, busiest: async () => [], ofServers, counts: async () => [], has };
  const query = { organizationId: 'org_acme', range: '24h', kind: 'server' } as const;
  const { total } = await readUsage(query, now, { rollupReader });

  expect(total).toMatchObject({ calls: 100, errors: 99, refused: 99 });
  expect(total.p50).toBeGreaterThan(900);
});

test('fifty of many are named, and five of them drawn over time', async () => {
  const counts = vi.fn<RollupReader['counts']>(async (_span, _kind, subjects) =>
    subjects.map((subject) => ({ ...subject, ...none, at: now, calls: 1 })),
  );
  const busiest: RollupReader['busiest'] = async (_span: RollupSpan, _kind, limit) =>
    Array.from({ length: limit }, (_, index) => ({
      serverId: 'srv_sales',
      subject: `key_${index}`,
      counts: [{ ...none, bucket: 3, calls: 100 - index }],
    }));
  const [ofServers, has] = [async () => [], async () => true];
  const rollupReader = { read: async () => [], busiest, ofServers, counts, has };
  const query = { organizationId: 'org_acme', range: '1h', kind: 'key' } as const;
  const { subjects, lines } = await readUsage(query, now, { rollupReader });

  expect(subjects).toHaveLength(50);
  expect(lines.map(({ subject }) => subject)).toEqual([
    'key_0',
    'key_1',
    'key_2',
    'key_3',
    'key_4',
  ]);
});
