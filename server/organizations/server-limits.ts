/** How much a server takes and gives; what is not there is bounded by what holds for every server alone. */
export interface ServerLimits {
  /** Requests that one caller may send in any minute; of notifications, and of streams to listen by, twice as many each. */
  readonly callsPerMinute?: number;
  /** Requests of one caller that may be under way at once; of streams by which it listens, four times as many. */
  readonly concurrentCalls?: number;
  /** Of the body of a request. */
  readonly requestBytes?: number;
  /** Of an answer, all its events together where it is a stream. */
  readonly answerBytes?: number;
  /** From the arrival of a request to the end of its answer. */
  readonly callSeconds?: number;
}

/** The least and the most that each may be set to. */
export const limitBounds: Readonly<Record<keyof ServerLimits, readonly [number, number]>> = {
  callsPerMinute: [1, 1_000_000],
  concurrentCalls: [1, 1024],
  requestBytes: [1024, 1024 ** 3],
  answerBytes: [1024, 1024 ** 3],
  callSeconds: [1, 3600],
};

export const limitNames = [
  'callsPerMinute',
  'concurrentCalls',
  'requestBytes',
  'answerBytes',
  'callSeconds',
] as const satisfies readonly (keyof ServerLimits)[];

/** Changes to limits: `null` lifts one, what is not there stays. */
export type LimitsChange = { readonly [name in keyof ServerLimits]?: number | null | undefined };

/** The limits with a change made to them; `undefined` when none is left. */
export function changedLimits(
  limits: ServerLimits | undefined,
  change: LimitsChange,
): ServerLimits | undefined {
  const merged = limitNames.flatMap((name) => {
    const value = change[name] === undefined ? limits?.[name] : change[name];
    return typeof value === 'number' ? [[name, value] as const] : [];
  });
  return merged.length > 0 ? Object.fromEntries(merged) : undefined;
}
