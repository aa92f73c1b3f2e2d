import type { EpochSeconds } from '#clock/clock';
import type { NamedGrant } from './grant-store.ts';

/** A refresh token. Only its SHA-256 is kept. */
export interface RefreshToken {
  readonly hash: string;
  /** When it ends unused. */
  readonly expiresAt: EpochSeconds;
  readonly spentAt: EpochSeconds | undefined;
  readonly grant: NamedGrant;
}

export interface Successor {
  readonly hash: string;
  /** Readable only with the token that it follows. */
  readonly sealed: string;
  readonly expiresAt: EpochSeconds;
}

/** What became of a token that was brought to be exchanged. */
export type Spending =
  | { readonly outcome: 'spent' }
  | {
      readonly outcome: 'spent-before';
      readonly at: EpochSeconds;
      readonly sealedSuccessor: string;
      readonly successorUsed: boolean;
    };

/** Where refresh tokens are kept. */
export interface RefreshTokenStore {
  /** Also when it is spent or expired. `undefined` when the server or its organization is disabled. */
  byHash(hash: string): Promise<RefreshToken | undefined>;

  /** Puts the successor in the token's place: for the first to come. Others learn what the first got. */
  spend(hash: string, successor: Successor, now: EpochSeconds): Promise<Spending>;
}
