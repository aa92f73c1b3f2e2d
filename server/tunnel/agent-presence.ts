import type { EpochSeconds } from '#clock/clock';

/** How an agent stands at this moment, and what happened since this server started. */
export interface AgentPresence {
  readonly isOnline: boolean;
  /** How many tunnels serve. */
  readonly tunnels: number;
  /** Of the program, in every tunnel. */
  readonly versions: readonly string[];
  /** What it could serve, by its own words. */
  readonly servers: readonly { readonly name: string; readonly kind: string }[];
  readonly callsUnderWay: number;
  /** Streams that only listen. */
  readonly listening: number;
  /** Calls for which there is no room yet. */
  readonly waiting: number;
  readonly calls: number;
  readonly failed: number;
  /** The last that went wrong. */
  readonly trouble: { readonly at: EpochSeconds; readonly words: string } | undefined;
}

export const absent: AgentPresence = {
  isOnline: false,
  tunnels: 0,
  versions: [],
  servers: [],
  callsUnderWay: 0,
  listening: 0,
  waiting: 0,
  calls: 0,
  failed: 0,
  trouble: undefined,
};
