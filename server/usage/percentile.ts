import { bucketMs } from './latency-bucket.ts';

/** How many calls took how long: calls by range of latencies, as `latency-bucket.ts` numbers them. */
export type Histogram = ReadonlyMap<number, number>;

/** Reads latencies in ms off a histogram: what a share of the calls (0 to 1) took at most; `undefined` where there are none. */
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
