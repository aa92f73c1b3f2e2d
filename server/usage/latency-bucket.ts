/**
 * Fixed latency ranges, four per doubling: range `n` reaches from 2^(n/4) ms to 2^((n+1)/4) ms. So counts per range
 * can be added up over time, servers and processes, and a percentile of the sum is off by at most a tenth.
 */
const perDoubling = 4;
/** A quarter of a millisecond, and a little over half an hour. */
const [first, last] = [-8, 83];

/** The range that contains a latency. */
export function latencyBucket(ms: number): number {
  if (!(ms > 0.25)) return first;
  return Math.min(last, Math.floor(Math.log2(ms) * perDoubling));
}

/** The geometric middle of a range, in ms. */
export function bucketMs(bucket: number): number {
  return 2 ** ((bucket + 0.5) / perDoubling);
}
