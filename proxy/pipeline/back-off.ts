export type BackOff = { firstMs: number; longestMs: number };

/**
 * How long to wait before attempt `attempt` (from 0): twice as long each time, and somewhere in the
 * upper half of it, so that many proxies do not come back to a server in the same instant.
 */
export function backOffMs(
  attempt: number,
  { firstMs, longestMs }: BackOff,
  random: () => number,
): number {
  const whole = Math.min(firstMs * 2 ** attempt, longestMs);
  return Math.round(whole / 2 + (random() * whole) / 2);
}
