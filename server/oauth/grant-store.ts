import type { EpochSeconds } from '#clock/clock';
import type { Scope } from '#credentials/scope';

/** However often it is refreshed, a grant ends then: 180 days. */
export const grantLifeSeconds = 180 * 24 * 3600;

/** A refresh token that nobody uses ends after 30 days. */
export const idleLifeSeconds = 30 * 24 * 3600;

/**
 * What a person let an application do at one server. All tokens that come of it are one family: they
 * name it, and end with it.
 */
export interface Grant {
  /** `grant_` and 16 base62 characters. */
  readonly id: string;
  readonly userId: string;
  readonly clientId: string;
  readonly serverId: string;
  readonly scopes: readonly Scope[];
  /** Where the code went, as the person was shown it. */
  readonly redirectHost: string;
  /** Whether the code was redeemed with client authentication; then so is every refresh. */
  readonly authenticated: boolean;
  readonly createdAt: EpochSeconds;
  /** Hard end, however often it is refreshed. */
  readonly expiresAt: EpochSeconds;
  readonly revokedAt: EpochSeconds | undefined;
}

/** A grant with what a person knows it by. */
export interface NamedGrant extends Grant {
  readonly clientName: string;
  /** `{organization}/{server}` */
  readonly serverPath: string;
  /** When the application last called on the person's behalf. */
  readonly lastUsedAt: EpochSeconds | undefined;
}

/** Where grants are kept. Reads see every write that has resolved, of any process. */
export interface GrantStore {
  /**
   * Spends the code and begins the grant with its first refresh token; all of it or nothing. `false` for
   * everybody but the first to bring that code.
   */
  begin(
    codeHash: string,
    grant: Omit<Grant, 'revokedAt'>,
    refreshToken: { hash: string; expiresAt: EpochSeconds },
  ): Promise<boolean>;

  byId(id: string): Promise<NamedGrant | undefined>;

  /** The person's grants that are in force at `now`, the newest first. */
  list(userId: string, now: EpochSeconds): Promise<NamedGrant[]>;

  /** Ends the grant and every token of it; `false` when there is none, or it had ended before. */
  revoke(id: string, now: EpochSeconds): Promise<boolean>;

  /** Ends all that the person granted, codes and remembered consents included. */
  revokeAll(userId: string, now: EpochSeconds): Promise<void>;
}
