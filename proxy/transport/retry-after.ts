import type { EpochSeconds } from '#clock/clock';

/**
 * How long a server asks us to wait, in seconds; `undefined` when it does not say, or nonsense.
 *
 *     Retry-After: 120
 *     Retry-After: Fri, 20 Nov 2026 09:00:00 GMT
 *
 * RFC 9110 §10.2.3
 */
export function retryAfterSeconds(
  header: string | undefined,
  now: EpochSeconds,
): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  if (!/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil(at / 1000) - now);
}
