/**
 * Latencies in ranges that are the same for ever and everywhere, four to the doubling: range `n` reaches
 * from 2^(n/4) ms to 2^((n+1)/4) ms. So counts of calls per range can be added up over time, servers
 * and processes, and a percentile read off the sum is at most a tenth off.
 */
const perDoubling = 4;
/** A quarter of a millisecond, and a little over half an hour. */
const [first, last] = [-8, 83];

/** The range that a latency falls into. */
export function latencyBucket(ms: number): number {
  if (!(ms > 0.25)) return first;
  return Math.min(last, Math.floor(Math.log2(ms) * perDoubling));
}

/** A latency in ms that stands for a range: its middle, in proportion. */
export function bucketMs(bucket: number): number {
  return 2 ** ((bucket + 0.5) / perDoubling);
}
