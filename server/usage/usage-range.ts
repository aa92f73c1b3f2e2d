import type { EpochSeconds } from '#clock/clock';
import type { Period } from './period.ts';

interface Range {
  readonly period: Period;
  /** The step of a plot. */
  readonly stepSeconds: number;
  readonly steps: number;
}

/** The ranges for which usage can be shown, all ending now. */
export const usageRanges = {
  '1h': { period: 'minute', stepSeconds: 60, steps: 60 },
  '24h': { period: 'hour', stepSeconds: 3600, steps: 24 },
  '7d': { period: 'hour', stepSeconds: 3 * 3600, steps: 56 },
  '30d': { period: 'day', stepSeconds: 86_400, steps: 30 },
  '90d': { period: 'day', stepSeconds: 86_400, steps: 90 },
} as const satisfies Record<string, Range>;

/** A range as in a URL: `7d`. */
export type UsageRange = keyof typeof usageRanges;

export function isUsageRange(text: string): text is UsageRange {
  return Object.hasOwn(usageRanges, text);
}

/** Start and end of a range. The last step is the one in progress. */
export function rangeAt(
  range: UsageRange,
  now: EpochSeconds,
): Range & { from: EpochSeconds; until: EpochSeconds } {
  const { stepSeconds, steps } = usageRanges[range];
  const until = now - (now % stepSeconds) + stepSeconds;
  return { ...usageRanges[range], from: until - steps * stepSeconds, until };
}
