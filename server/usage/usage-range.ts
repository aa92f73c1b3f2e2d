import type { EpochSeconds } from '#clock/clock';
import type { Period } from './period.ts';

interface Range {
  readonly period: Period;
  /** How long the stretch of time is that one point of a plot stands for. */
  readonly stepSeconds: number;
  readonly steps: number;
}

/** The times that usage can be looked at for, all of them up to now. */
export const usageRanges = {
  '1h': { period: 'minute', stepSeconds: 60, steps: 60 },
  '24h': { period: 'hour', stepSeconds: 3600, steps: 24 },
  '7d': { period: 'hour', stepSeconds: 3 * 3600, steps: 56 },
  '30d': { period: 'day', stepSeconds: 86_400, steps: 30 },
  '90d': { period: 'day', stepSeconds: 86_400, steps: 90 },
} as const satisfies Record<string, Range>;

/** A time that usage can be looked at for, as in a URL: `7d`. */
export type UsageRange = keyof typeof usageRanges;

/** Whether a text from outside is one of them. */
export function isUsageRange(text: string): text is UsageRange {
  return Object.hasOwn(usageRanges, text);
}

/** Where a range begins and ends; the last step is the one that has just begun. */
export function rangeAt(
  range: UsageRange,
  now: EpochSeconds,
): Range & { from: EpochSeconds; until: EpochSeconds } {
  const { stepSeconds, steps } = usageRanges[range];
  const until = now - (now % stepSeconds) + stepSeconds;
  return { ...usageRanges[range], from: until - steps * stepSeconds, until };
}
