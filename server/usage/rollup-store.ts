import type { EpochSeconds } from '#clock/clock';

/** What calls are counted for. */
export const callKinds = ['server', 'client', 'key', 'person', 'tool', 'method'] as const;
/** One of `callKinds`. */
export type CallKind = (typeof callKinds)[number];

/** How many calls there were, and how many of them came to nothing. */
export interface CallCounts {
  readonly calls: number;
  /** Answered by the MCP server with an error, of a tool or of the protocol. */
  readonly toolErrors: number;
  /** Turned down here: a scope that is missing, a hidden tool, too many at once. */
  readonly refused: number;
  /** Not answered by the MCP server. */
  readonly upstreamErrors: number;
}

/** Calls of one minute that took about as long, counted for one thing. */
export interface CallTally extends CallCounts {
  /** When the minute begins. */
  readonly at: EpochSeconds;
  readonly serverId: string;
  readonly kind: CallKind;
  /** The id of a server, key, client or person; the name of a tool or method. */
  readonly subject: string;
  readonly bucket: number;
}

/** One thing that calls are counted for, within its server. */
export interface CallSubject {
  readonly serverId: string;
  readonly subject: string;
}

/**
 * Keeps counted calls in rows whose number grows with the things that are counted for, not with calls.
 * What several processes record adds up.
 */
export interface RollupStore {
  /** Adds to the rows of every period and of the organization; all of it or nothing. Servers that are gone are left out. */
  record(tallies: readonly CallTally[]): Promise<void>;

  /** The names of tools and methods that are kept, of every server. */
  names(): Promise<(CallSubject & { kind: CallKind })[]>;

  /** Removes rows that are kept no longer, at most sixty periods of each kind at once. */
  forget(now: EpochSeconds): Promise<void>;
}
