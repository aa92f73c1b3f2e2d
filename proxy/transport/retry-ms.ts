const firstMs = 1_000;
const longestMs = 30_000;

/** How long to wait before a stream is asked for again, the `attempt`th time (from 0) in a row. */
export function retryMs(attempt: number): number {
  return Math.min(firstMs * 2 ** attempt, longestMs);
}
