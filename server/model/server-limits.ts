/** Limits of one server. Without a limit, only the limits of the whole gateway apply. */
export interface ServerLimits {
  /** Requests per caller in any minute. Notifications and listening streams are each limited to twice as many. */
  readonly callsPerMinute?: number;
  /** Concurrent requests per caller. Listening streams are limited to four times as many. */
  readonly concurrentCalls?: number;
  /** The size of a request body. */
  readonly requestBytes?: number;
  /** The size of a response; for a stream, of all its events together. */
  readonly answerBytes?: number;
  /** The time from the arrival of a request to the end of its response. */
  readonly callSeconds?: number;
}

export const limitBounds: Readonly<Record<keyof ServerLimits, readonly [number, number]>> = {
  callsPerMinute: [1, 1_000_000],
  concurrentCalls: [1, 1024],
  requestBytes: [1024, 1024 ** 3],
  answerBytes: [1024, 1024 ** 3],
  callSeconds: [1, 3600],
};

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a constant
export const limitNames = Object.keys(limitBounds) as readonly (keyof ServerLimits)[];

/** Changes to limits: `null` removes a limit, absent ones keep their value. */
export type LimitsChange = { readonly [name in keyof ServerLimits]?: number | null | undefined };

/** The limits after a change; `undefined` if none remains. */
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
