import type { EpochSeconds } from '#clock/clock';
import type { Period } from './period.ts';
import type { CallCounts, CallKind, CallSubject } from './rollup-store.ts';

/** Which rows: of one organization, from `from` up to but not including `until`, summed up by steps. */
export interface RollupSpan {
  readonly organizationId: string;
  readonly period: Period;
  /** A whole number of periods. */
  readonly stepSeconds: number;
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
}

/** Calls that took about as long, as `latency-bucket.ts` numbers it. */
export interface TimedCounts extends CallCounts {
  readonly bucket: number;
}

/** Calls of one step. */
export interface StepCounts extends CallCounts {
  /** When the step begins. */
  readonly at: EpochSeconds;
}

/** Reads counted calls. Sees every write that has resolved, of any process. */
export interface RollupReader {
  /** In order of time: of the whole organization, or of one thing. */
  read(
    span: RollupSpan,
    of?: CallSubject & { readonly kind: CallKind },
  ): Promise<(StepCounts & TimedCounts)[]>;

  /** The things that had most calls, each with its calls of the whole span; at most `limit`. */
  busiest(
    span: RollupSpan,
    kind: CallKind,
    limit: number,
  ): Promise<(CallSubject & { readonly counts: TimedCounts[] })[]>;

  /** Each of these servers that was called, with its calls of the whole span. */
  ofServers(
    span: RollupSpan,
    serverIds: readonly string[],
  ): Promise<{ readonly serverId: string; readonly counts: TimedCounts[] }[]>;

  /** Of several things, in order of time. */
  counts(
    span: RollupSpan,
    kind: CallKind,
    subjects: readonly CallSubject[],
  ): Promise<(CallSubject & StepCounts)[]>;

  /** Whether a call was counted for this thing within the organization, on any of the days that are kept. */
  has(
    organizationId: string,
    of: CallSubject & { readonly kind: CallKind },
    now: EpochSeconds,
  ): Promise<boolean>;
}
