import type { EpochSeconds } from '#clock/clock';
import type { Scope } from '#credentials/scope';

/** What a consent is about: who, for which application, at which server, and where the code goes. */
export interface ConsentSubject {
  readonly userId: string;
  readonly clientId: string;
  readonly serverId: string;
  readonly redirectHost: string;
}

/** Remembers what a person has allowed, so as not to ask the same again. */
export interface ConsentStore {
  /** The scopes allowed for exactly this; none when it was never allowed, or forgotten. */
  allowed(subject: ConsentSubject, now: EpochSeconds): Promise<readonly Scope[]>;

  /** Replaces what was remembered for the same. */
  remember(
    subject: ConsentSubject,
    scopes: readonly Scope[],
    expiresAt: EpochSeconds,
  ): Promise<void>;

  /**
   * Forgets what the person allowed this application at this server, wherever the code went, and the codes
   * that it has not redeemed.
   */
  forget(subject: Omit<ConsentSubject, 'redirectHost'>): Promise<void>;
}
