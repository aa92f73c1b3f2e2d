import { bucketMs } from './latency-bucket.ts';

/** How many calls took how long: calls by range of latencies, as `latency-bucket.ts` numbers them. */
export type Histogram = ReadonlyMap<number, number>;

/** The latency in ms that `share` of the calls (0 to 1) took at most; `undefined` where there are none. */
export function percentile(histogram: Histogram, share: number): number | undefined {
  let calls = 0;
  for (const count of histogram.values()) calls += count;
  if (calls === 0) return undefined;
  let rest = Math.max(1, Math.ceil(calls * share));
  for (const [bucket, count] of [...histogram].toSorted(([a], [b]) => a - b)) {
    rest -= count;
    if (rest <= 0) return bucketMs(bucket);
  }
  return undefined;
}
