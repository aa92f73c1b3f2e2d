import type { EpochSeconds } from '#clock/clock';

/** A secret of an OAuth client without its value, which was shown once. */
export interface ClientSecret {
  /** `cs_` and 16 characters; opens nothing. */
  readonly id: string;
  readonly clientId: string;
  /** Prefix and last four characters. */
  readonly hint: string;
  readonly createdAt: EpochSeconds;
  /** When it ends by itself, as the older one does in a rotation. */
  readonly expiresAt: EpochSeconds | undefined;
  /** To the minute. */
  readonly lastUsedAt: EpochSeconds | undefined;
  readonly revokedAt: EpochSeconds | undefined;
}

/** Where the secrets of OAuth clients are kept; several of one client may count at once. */
export interface ClientSecretStore {
  /**
   * Adds a secret beside the others, which count until `othersExpireAt` at most, or as long as before where that is not
   * given. Its id; `undefined`, and nothing changed, when `most` of them count already or the client is
   * revoked or gone.
   */
  add(
    secret: Pick<ClientSecret, 'clientId' | 'hint' | 'createdAt'> & { readonly hash: string },
    limits: { readonly most: number; readonly othersExpireAt: EpochSeconds | undefined },
  ): Promise<string | undefined>;

  /** The newest first, those that count no more included. */
  list(clientId: string): Promise<ClientSecret[]>;

  /** `false` when that client has no such secret, or it was revoked before. */
  revoke(clientId: string, id: string, now: EpochSeconds): Promise<boolean>;
}
