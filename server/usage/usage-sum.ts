import { percentile } from './percentile.ts';
import type { TimedCounts, CallCounts } from '#db/rollups';

/** A sum of calls. Latencies are those of calls that were not refused here, in ms. */
export interface UsageSum extends CallCounts {
  /** All failures. */
  readonly errors: number;
  readonly p50: number | undefined;
  readonly p90: number | undefined;
  readonly p99: number | undefined;
}

export function usageSum(rows: readonly TimedCounts[]): UsageSum {
  const sum = { calls: 0, toolErrors: 0, refused: 0, upstreamErrors: 0 };
  const answered = new Map<number, number>();
  for (const { bucket, calls, toolErrors, refused, upstreamErrors } of rows) {
    sum.calls += calls;
    sum.toolErrors += toolErrors;
    sum.refused += refused;
    sum.upstreamErrors += upstreamErrors;
    answered.set(bucket, (answered.get(bucket) ?? 0) + calls - refused);
  }
  const tookAtMost = percentile(answered);
  return {
    ...sum,
    errors: errorsIn(sum),
    p50: tookAtMost(0.5),
    p90: tookAtMost(0.9),
    p99: tookAtMost(0.99),
  };
}

export function errorsIn({ toolErrors, refused, upstreamErrors }: CallCounts): number {
  return toolErrors + refused + upstreamErrors;
}
