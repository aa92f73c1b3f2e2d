import type { EpochSeconds } from '#clock/clock';

/**
 * Remembers what was begun in one browser and must end there, once: a passkey's challenge, a sign-in at
 * an upstream provider. Kept by a hash over what was sent out and the browser's own cookie.
 */
export interface CeremonyStore {
  begin(hash: string, expiresAt: EpochSeconds): Promise<void>;

  /** `true` once, for what was begun and has not expired. */
  end(hash: string, now: EpochSeconds): Promise<boolean>;
}
