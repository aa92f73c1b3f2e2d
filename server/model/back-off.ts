/** How long to wait between attempts that fail. The pause doubles with each failure. */
export interface BackOff {
  readonly firstMs: number;
  readonly mostMs: number;
  /** The part of a pause, between 0 and 1, that may be taken off at random, so that attempts do not coincide. Default: 0. */
  readonly jitter?: number;
}

const second = 1000;

/** Every use of a pause that grows with the number of failures. */
export const backOffs = {
  /** A webhook's receiver did not accept an event. */
  webhook: { firstMs: 5 * second, mostMs: 3600 * second, jitter: 0.25 },
  /** A mail server could not be reached, or refused a mail for now. */
  mail: { firstMs: 30 * second, mostMs: 3600 * second, jitter: 0.25 },
  /** An authorization server could not be told that tokens or a registration are no longer needed. Ten attempts. */
  credentialCleanup: { firstMs: 60 * second, mostMs: 512 * 60 * second },
  /** An identity provider did not say whether it still knows a person. */
  providerCheck: { firstMs: 30 * second, mostMs: 1800 * second, jitter: 0.25 },
  /** A stream of notifications from an upstream ended. */
  upstreamStream: { firstMs: second, mostMs: 30 * second },
  /** A worker process ended. */
  workerRestart: { firstMs: 250, mostMs: 10 * second },
  /** PostgreSQL did not answer an admission query. */
  admission: { firstMs: 20, mostMs: 250 },
  /** PostgreSQL rolled a transaction back because of another one. Five attempts. */
  deadlock: { firstMs: 2, mostMs: 16 },
} as const satisfies Record<string, BackOff>;

/** The pause after `failures` consecutive failures; 0 without a failure. */
export function pauseMs(
  { firstMs, mostMs, jitter = 0 }: BackOff,
  failures: number,
  random: () => number = () => 0,
): number {
  if (failures === 0) return 0;
  const doubled = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return doubled * (1 - jitter * random());
}
