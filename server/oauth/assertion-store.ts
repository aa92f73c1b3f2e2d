import type { EpochSeconds } from '#clock/clock';

/** Remembers which client assertions were used. */
export interface AssertionStore {
  /** `false` when this client has brought that `jti` before, and it has not expired. */
  use(
    assertion: { clientId: string; jti: string; expiresAt: EpochSeconds },
    now: EpochSeconds,
  ): Promise<boolean>;
}
