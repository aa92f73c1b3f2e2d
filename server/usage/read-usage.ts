import { type CallCounts, type CallSubject, untimed } from '#model/call-counts';
import {
  type Period,
  type RollupSpan,
  type StepCounts,
  type TimedCounts,
  type CallFilter,
  sumCalls,
  sumCallsOfServers,
  sumCallsOfSubjects,
  listBusiest,
} from '#db/rollups';
import type { EpochSeconds } from '#model/clock';
import type { Db } from '#db/transaction';
import { percentile } from './latencies.ts';

interface Range {
  /** The period of the rows that are read. */
  readonly period: Period;
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

/** A range as it appears in a URL, such as `7d`. */
export type UsageRange = keyof typeof usageRanges;

export function isUsageRange(text: string): text is UsageRange {
  return Object.hasOwn(usageRanges, text);
}

/** The range with its start (inclusive) and end (exclusive). The last step is the current one. */
export function rangeAt(
  range: UsageRange,
  now: EpochSeconds,
): Range & { from: EpochSeconds; until: EpochSeconds } {
  const { stepSeconds, steps } = usageRanges[range];
  const until = now - (now % stepSeconds) + stepSeconds;
  return { ...usageRanges[range], from: until - steps * stepSeconds, until };
}

/** A sum of calls. The latencies are percentiles in ms, of calls that the gateway did not refuse; `undefined` without such calls. */
export interface UsageSum extends CallCounts {
  readonly errors: number;
  readonly p50: number | undefined;
  readonly p90: number | undefined;
  readonly p99: number | undefined;
}

function usageSum(rows: readonly TimedCounts[]): UsageSum {
  const sum = { calls: 0, toolErrors: 0, refused: 0, upstreamErrors: 0 };
  const answered = new Map<number, number>();
  for (const { bucket, calls, toolErrors, refused, upstreamErrors } of rows) {
    sum.calls += calls;
    sum.toolErrors += toolErrors;
    sum.refused += refused;
    sum.upstreamErrors += upstreamErrors;
    if (bucket !== untimed) answered.set(bucket, (answered.get(bucket) ?? 0) + calls - refused);
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

const mostLines = 5;
const mostSubjects = 50;

/** The calls that are counted for some subjects of an organization. */
export interface UsageQuery {
  readonly organizationId: string;
  readonly range: UsageRange;
  readonly of: CallFilter;
  /** The most subjects that are named. Default: fifty. */
  readonly limit?: number | undefined;
}

/** Calls over time. Steps without calls are omitted, because an error rate of 0 would be misleading there. */
export interface UsageReading {
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  readonly total: UsageSum;
  readonly points: readonly (UsageSum & { readonly at: EpochSeconds })[];
  /** The busiest subjects. */
  readonly subjects: readonly (CallSubject & { readonly total: UsageSum })[];
  /** The calls of all other subjects: together with those of `subjects` they are `total`. */
  readonly others: CallCounts;
}

type WholeUsage = Omit<UsageReading, 'subjects' | 'others'>;

/** Reads the calls of an organization and of some of its servers. */
export async function readServerUsage(
  { organizationId, range }: Pick<UsageQuery, 'organizationId' | 'range'>,
  serverIds: readonly string[],
  now: EpochSeconds,
  { db }: { readonly db: Db },
): Promise<WholeUsage & { readonly servers: ReadonlyMap<string, UsageSum> }> {
  const span = spanOf(organizationId, range, now);
  const rows = await sumCalls(db, span);
  const ofEach = await sumCallsOfServers(db, span, serverIds);
  const servers = new Map(ofEach.map(({ serverId, counts }) => [serverId, usageSum(counts)]));
  return { ...wholeOf(span, rows), servers };
}

/** Reads the calls that `of` selects. The number of rows read does not grow with the number of calls. */
export async function readUsage(
  { organizationId, range, of, limit = mostSubjects }: UsageQuery,
  now: EpochSeconds,
  { db }: { readonly db: Db },
): Promise<UsageReading> {
  const span = spanOf(organizationId, range, now);
  const whole = wholeOf(span, await sumCalls(db, span, of));
  const busiest = await listBusiest(db, span, of, limit);
  const subjects = busiest.map(({ serverId, subject, counts }) => {
    return { serverId, subject, total: usageSum(counts) };
  });
  const listed = eachCount((count) => subjects.reduce((sum, { total }) => sum + total[count], 0));
  // Calls that are recorded between the two queries are in the second one only.
  const counts = eachCount((count) => Math.max(whole.total[count], listed[count]));
  const others = eachCount((count) => counts[count] - listed[count]);
  const total = { ...whole.total, ...counts, errors: errorsIn(counts) };
  return { ...whole, total, subjects, others };
}

function eachCount(of: (count: keyof CallCounts) => number): CallCounts {
  return {
    calls: of('calls'),
    toolErrors: of('toolErrors'),
    refused: of('refused'),
    upstreamErrors: of('upstreamErrors'),
  };
}

/** The five busiest of the subjects over time. */
export async function readBusiestOverTime(
  { organizationId, range, of }: UsageQuery,
  { subjects }: UsageReading,
  now: EpochSeconds,
  { db }: { readonly db: Db },
): Promise<readonly (CallSubject & { readonly points: readonly StepCounts[] })[]> {
  const busiest = subjects.slice(0, mostLines);
  const span = spanOf(organizationId, range, now);
  const steps = await sumCallsOfSubjects(db, span, of.kind, busiest);
  return busiest.map(({ serverId, subject }) => ({
    serverId,
    subject,
    points: steps.filter((step) => step.serverId === serverId && step.subject === subject),
  }));
}

function spanOf(organizationId: string, range: UsageRange, now: EpochSeconds): RollupSpan {
  const { period, stepSeconds, from, until } = rangeAt(range, now);
  return { organizationId, period, stepSeconds, from, until };
}

function wholeOf(
  { from, until, stepSeconds }: RollupSpan,
  rows: readonly (StepCounts & TimedCounts)[],
): WholeUsage {
  return { from, until, stepSeconds, total: usageSum(rows), points: pointsOf(rows) };
}

function pointsOf(rows: readonly (StepCounts & TimedCounts)[]): UsageReading['points'] {
  const steps = new Map<EpochSeconds, TimedCounts[]>();
  for (const row of rows) {
    const step = steps.get(row.at);
    if (step) step.push(row);
    else steps.set(row.at, [row]);
  }
  return [...steps].map(([at, ofStep]) => Object.assign(usageSum(ofStep), { at }));
}
