import type { EpochSeconds } from '#clock/clock';
import type { Scope } from '#credentials/scope';

/** An authorization code and what the person granted with it. Only its SHA-256 is kept. */
export interface AuthorizationCode {
  readonly hash: string;
  /** The grant that begins when the code is redeemed. */
  readonly grantId: string;
  readonly userId: string;
  readonly clientId: string;
  readonly serverId: string;
  readonly scopes: readonly Scope[];
  /** As it was asked for, port and all. */
  readonly redirectUri: string;
  /** S256: base64url of the SHA-256 of the verifier. RFC 7636 §4.2 */
  readonly codeChallenge: string;
  readonly expiresAt: EpochSeconds;
  readonly spentAt: EpochSeconds | undefined;
}

/** Where authorization codes are kept. `GrantStore.begin` spends one in exchange for its grant. */
export interface AuthorizationCodeStore {
  add(code: Omit<AuthorizationCode, 'spentAt'>, now: EpochSeconds): Promise<void>;

  /** Also when it is spent or expired. `undefined` when the server or its organization is disabled. */
  byHash(hash: string): Promise<(AuthorizationCode & { serverPath: string }) | undefined>;

  /** Spends the code in exchange for nothing. */
  spend(hash: string, now: EpochSeconds): Promise<void>;
}
