// Latencies are counted in fixed ranges, four per doubling: range `n` reaches from 2^(n/4) ms to 2^((n+1)/4) ms. So counts per
// range can be added up over time, servers and processes, and a percentile of the sum is off by at most a tenth.

const perDoubling = 4;
/** The first and the last range: a quarter of a millisecond, and a little over half an hour. */
const [first, last] = [-8, 83];

/** The number of the range that contains a latency. */
export function latencyBucket(ms: number): number {
  if (!(ms > 0.25)) return first;
  return Math.min(last, Math.floor(Math.log2(ms) * perDoubling));
}

/** The geometric middle of a range, in ms. */
export function bucketMs(bucket: number): number {
  return 2 ** ((bucket + 0.5) / perDoubling);
}

/** Numbers of calls by latency range, as numbered by `latencyBucket`. */
export type Histogram = ReadonlyMap<number, number>;

/**
 * Returns a function from a share of the calls (0 to 1) to the latency in ms that this share did not exceed;
 * `undefined` without calls.
 */
export function percentile(histogram: Histogram): (share: number) => number | undefined {
  const ranges = [...histogram].toSorted(([a], [b]) => a - b);
  let calls = 0;
  for (const [, count] of ranges) calls += count;
  return (share) => {
    if (calls === 0) return undefined;
    let rest = Math.max(1, Math.ceil(calls * share));
    for (const [bucket, count] of ranges) {
      rest -= count;
      if (rest <= 0) return bucketMs(bucket);
    }
    return undefined;
  };
}
