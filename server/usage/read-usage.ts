import {
  type RollupSpan,
  type StepCounts,
  type TimedCounts,
  type CallKind,
  type CallSubject,
  sumCalls,
  sumCallsOfServers,
  sumCallsOfSubjects,
  listBusiest,
} from '#db/rollups';
import type { EpochSeconds } from '#clock/clock';
import type { Db } from '#db/transaction';
import { rangeAt, type UsageRange } from './usage-range.ts';
import { usageSum, type UsageSum } from './usage-sum.ts';

const mostLines = 5;
const mostSubjects = 50;

/** An organization as a whole with its busiest subjects, or one subject of it. */
export interface UsageQuery {
  readonly organizationId: string;
  readonly range: UsageRange;
  readonly kind: CallKind;
  readonly subject?: CallSubject | undefined;
}

/** Calls over time. Steps without calls are omitted: no calls do not mean that calls would have succeeded. */
export interface UsageReading {
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  /** Of the organization, or of the one subject. */
  readonly total: UsageSum;
  readonly points: readonly (UsageSum & { readonly at: EpochSeconds })[];
  /** The fifty busiest subjects of the kind; empty for a single subject. */
  readonly subjects: readonly (CallSubject & { readonly total: UsageSum })[];
  /** The first five of them over time. */
  readonly lines: readonly (CallSubject & { readonly points: readonly StepCounts[] })[];
}

type WholeUsage = Omit<UsageReading, 'subjects' | 'lines'>;

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

/** Reads the calls of an organization. The number of rows read does not grow with the number of calls. */
export async function readUsage(
  { organizationId, range, kind, subject }: UsageQuery,
  now: EpochSeconds,
  { db }: { readonly db: Db },
): Promise<UsageReading> {
  const span = spanOf(organizationId, range, now);
  const rows = await sumCalls(db, span, subject && { kind, ...subject });
  const whole = wholeOf(span, rows);
  if (subject) return { ...whole, subjects: [], lines: [] };
  const busiest = await listBusiest(db, span, kind, mostSubjects);
  const steps = await sumCallsOfSubjects(db, span, kind, busiest.slice(0, mostLines));
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
