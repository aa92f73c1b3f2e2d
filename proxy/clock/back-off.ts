/** Pauses that grow with each failure, up to the longest. */
export type BackOff = {
  firstMs: number;
  longestMs: number;
  /** Each pause is this many times as long as the one before. Default: 2. */
  factor?: number;
};

/** Everything that this program tries again, and the pauses in between. */
export const backOffs = {
  /** A request to a server that is busy or not reachable. */
  request: { firstMs: 250, longestMs: 8_000 },
  /** A stream that ended. */
  stream: { firstMs: 1_000, longestMs: 30_000 },
  /** A subscription to changes that broke off. */
  subscription: { firstMs: 1_000, longestMs: 30_000 },
  /** A server that has been unreachable. */
  offlineServer: { firstMs: 1_000, longestMs: 30_000 },
  /** A server that requires a sign-in. */
  signedOutServer: { firstMs: 2_000, longestMs: 30_000 },
  /** The tunnel of an agent. */
  tunnel: { firstMs: 500, longestMs: 30_000 },
  /** A tunnel to another node. A balancer may lead to the same node many times, or always. */
  secondTunnel: { firstMs: 250, longestMs: 60_000 },
  /** A lock that another process holds. A refresh takes about a second; a longer hold means that its holder waits for a person. */
  lock: { firstMs: 50, longestMs: 1_000, factor: 1.2 },
} as const satisfies Record<string, BackOff>;

/** The pause before attempt `attempt`, counted from 0. */
export function pauseMs({ firstMs, longestMs, factor = 2 }: BackOff, attempt: number): number {
  return Math.min(firstMs * factor ** attempt, longestMs);
}

/** Like `pauseMs`, but half of the pause is random, so that many proxies do not return to a server at the same moment. */
export function randomPauseMs(backOff: BackOff, attempt: number, random: () => number): number {
  const fullMs = pauseMs(backOff, attempt);
  return Math.round(fullMs / 2 + (random() * fullMs) / 2);
}
