import type { EpochSeconds } from '#clock/clock';
import type { RollupReader, RollupSpan, StepCounts, TimedCounts } from './rollup-reader.ts';
import type { CallKind, CallSubject } from './rollup-store.ts';
import { rangeAt, type UsageRange } from './usage-range.ts';
import { usageSum, type UsageSum } from './usage-sum.ts';

const mostLines = 5;
const mostSubjects = 50;

/** What to look at: an organization as a whole and what it is made of, or one thing of it. */
export interface UsageQuery {
  readonly organizationId: string;
  readonly range: UsageRange;
  readonly kind: CallKind;
  readonly subject?: CallSubject | undefined;
}

/**
 * Calls over time. Steps without calls are left out: that nobody called does not say that a call would
 * have gone well.
 */
export interface UsageReading {
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  /** Of the organization, or of the one thing. */
  readonly total: UsageSum;
  readonly points: readonly (UsageSum & { readonly at: EpochSeconds })[];
  /** The fifty things of the kind that were called most, the busiest first; none for one thing. */
  readonly subjects: readonly (CallSubject & { readonly total: UsageSum })[];
  /** The first five of them over time. */
  readonly lines: readonly (CallSubject & { readonly points: readonly StepCounts[] })[];
}

type WholeUsage = Omit<UsageReading, 'subjects' | 'lines'>;

/** Reads how often and how well an organization was called, and some of its servers. */
export async function readServerUsage(
  { organizationId, range }: Pick<UsageQuery, 'organizationId' | 'range'>,
  serverIds: readonly string[],
  now: EpochSeconds,
  { rollupReader: rollups }: { readonly rollupReader: RollupReader },
): Promise<WholeUsage & { readonly servers: ReadonlyMap<string, UsageSum> }> {
  const span = spanOf(organizationId, range, now);
  const rows = await rollups.read(span);
  const ofEach = await rollups.ofServers(span, serverIds);
  const servers = new Map(ofEach.map(({ serverId, counts }) => [serverId, usageSum(counts)]));
  return { ...wholeOf(span, rows), servers };
}

/** Reads how often and how well an organization was called, from a number of rows that calls do not change. */
export async function readUsage(
  { organizationId, range, kind, subject }: UsageQuery,
  now: EpochSeconds,
  { rollupReader: rollups }: { readonly rollupReader: RollupReader },
): Promise<UsageReading> {
  const span = spanOf(organizationId, range, now);
  const rows = await rollups.read(span, subject && { kind, ...subject });
  const whole = wholeOf(span, rows);
  if (subject) return { ...whole, subjects: [], lines: [] };
  const busiest = await rollups.busiest(span, kind, mostSubjects);
  const steps = await rollups.counts(span, kind, busiest.slice(0, mostLines));
  const lines = busiest.slice(0, mostLines).map(({ serverId, subject: name }) => ({
    serverId,
    subject: name,
    points: steps.filter((step) => step.serverId === serverId && step.subject === name),
  }));
  const subjects = busiest.map(({ serverId, subject: name, counts }) => {
    return { serverId, subject: name, total: usageSum(counts) };
  });
  return { ...whole, subjects, lines };
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
