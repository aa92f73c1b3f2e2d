import type { EpochSeconds } from '#clock/clock';

const shortestSeconds = 5;
const longestSeconds = 3600;

/**
 * How long to wait before the next try: twice as long each time, from five seconds to an hour, and a random part less
 * so that many do not come back at once. What a receiver asks for is heeded within the same bounds.
 */
export function retrySeconds(
  { attempts, retryAfterSeconds }: { attempts: number; retryAfterSeconds: number | undefined },
  random: () => number,
): number {
  const doubled = Math.min(longestSeconds, shortestSeconds * 2 ** Math.min(attempts, 20));
  const wanted = retryAfterSeconds ?? Math.round(doubled * (1 - random() / 4));
  return Math.min(longestSeconds, Math.max(shortestSeconds, wanted));
}

/** Seconds or a date; `undefined` for anything else. RFC 9110 §10.2.3 */
export function readRetryAfter(value: string | null, now: EpochSeconds): number | undefined {
  if (value === null) return undefined;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value);
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil(at / 1000) - now);
}
