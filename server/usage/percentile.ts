import { bucketMs } from './latency-bucket.ts';

/** Numbers of calls by latency range, as numbered in `latency-bucket.ts`. */
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
