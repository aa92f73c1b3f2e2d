import { expect, test } from 'vitest';
import { bucketMs, latencyBucket, percentile } from '#server/usage/latencies';

/** Calls by range of latencies. */
function histogram(latencies: readonly number[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const ms of latencies) {
    counts.set(latencyBucket(ms), (counts.get(latencyBucket(ms)) ?? 0) + 1);
  }
  return counts;
}

test.each([0.3, 1, 7, 80, 950, 30_000, 600_000])(
  'a latency of %s ms is read back within a tenth',
  (ms) => {
    const read = bucketMs(latencyBucket(ms));

    expect(Math.abs(read / ms - 1)).toBeLessThan(0.1);
  },
);

test('a latency outside all ranges falls into the first or the last', () => {
  expect(latencyBucket(0)).toBe(latencyBucket(0.2));
  expect(latencyBucket(-5)).toBe(latencyBucket(0));
  expect(latencyBucket(Number.NaN)).toBe(latencyBucket(0));
  expect(latencyBucket(1e12)).toBe(latencyBucket(1e9));
});

test('a percentile is the latency that this share of the calls took at most', () => {
  const latencies = Array.from({ length: 1000 }, (_, index) => index + 1);
  const counts = histogram(latencies);

  expect(percentile(counts)(0.5)).toBeGreaterThan(450);
  expect(percentile(counts)(0.5)).toBeLessThan(550);
  expect(percentile(counts)(0.99)).toBeGreaterThan(890);
  expect(percentile(counts)(0.99)).toBeLessThan(1090);
});

test('one slow call among a hundred does not count for the ninety-ninth percentile, among ninety it does', () => {
  const slow = (fast: number) => histogram([...Array.from({ length: fast }, () => 10), 5000]);

  expect(percentile(slow(99))(0.99)).toBeLessThan(11);
  expect(percentile(slow(89))(0.99)).toBeGreaterThan(4500);
});

test('sums of histograms have the percentiles of all their calls', () => {
  const [fast, slow] = [histogram([1, 2, 3]), histogram([100, 200, 300])];
  const both = new Map(fast);
  for (const [bucket, count] of slow) both.set(bucket, (both.get(bucket) ?? 0) + count);

  expect(percentile(both)(0.5)).toBe(percentile(fast)(1));
  expect(percentile(both)(1)).toBe(percentile(slow)(1));
});

test('no calls have no percentile', () => {
  expect(percentile(new Map())(0.5)).toBeUndefined();
  expect(percentile(new Map([[3, 0]]))(0.5)).toBeUndefined();
});
