import type { EpochSeconds } from '#clock/clock';

/** Access tokens that no longer count although they have not expired. */
export interface RevokedTokenStore {
  /** Once resolved, no later read finds the token valid. Again is no error. */
  revoke(token: { id: string; expiresAt: EpochSeconds }, now: EpochSeconds): Promise<void>;

  isRevoked(tokenId: string): Promise<boolean>;
}
