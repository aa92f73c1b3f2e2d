import type { EpochSeconds } from '#clock/clock';
import type { Scope } from './scope.ts';

/**
 * An application that may ask for tokens: to the one MCP server it was made for, or, when it registered
 * itself, to any server that a person lets it use.
 */
export interface OAuthClient {
  /** `client_` and 24 base62 characters, or the https URL of a client ID metadata document. */
  readonly id: string;
  readonly name: string;
  /** `undefined` for one that registered itself, by document or dynamically. */
  readonly serverId: string | undefined;
  /** The one MCP endpoint its tokens are for, as `{organization}/{server}`. */
  readonly serverPath: string | undefined;
  /** The most it may ever get. */
  readonly scopes: readonly Scope[];
  readonly redirectUris: readonly string[];
  /** Public keys for `private_key_jwt`, as the JWKS document's own text. */
  readonly jwks: string | undefined;
  /**
   * Whether its id alone never says that a request is its own: it has keys, or it registered itself with a secret. A
   * client that an administrator created with a secret may redeem a code without it.
   */
  readonly authenticationRequired: boolean;
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
  readonly revokedAt: EpochSeconds | undefined;
}

/** A client as a list shows it. */
export interface ListedOAuthClient extends OAuthClient {
  /** Prefix and last four characters of its newest secret. */
  readonly secretHint: string | undefined;
}

/** What a client is made of, its secret as a hash and a hint; a public one has none. */
export interface NewOAuthClient {
  readonly id: string;
  readonly name: string;
  readonly serverId: string | undefined;
  readonly scopes: readonly Scope[];
  readonly redirectUris: readonly string[];
  readonly jwks: string | undefined;
  /** `false` unless given; keys require it in any case. */
  readonly authenticationRequired?: boolean;
  readonly secretHash: string | undefined;
  readonly secretHint: string | undefined;
  readonly createdAt: EpochSeconds;
}

/** Where OAuth clients are kept. Reads see every write that has resolved, of any process. */
export interface OAuthClientStore {
  add(client: NewOAuthClient): Promise<void>;

  /** `undefined` when there never was one; a revoked one is still found. */
  byId(id: string): Promise<OAuthClient | undefined>;

  /** Whether `hash` is of a secret of that client that counts at `now`; notes its use within a minute. */
  hasSecret(clientId: string, hash: string, now: EpochSeconds): Promise<boolean>;

  /** All clients of an organization, or of one of its servers, oldest first. */
  list(organization: string, server?: string): Promise<ListedOAuthClient[]>;

  /** `false` when there is none, or it was revoked before. */
  revoke(id: string, now: EpochSeconds): Promise<boolean>;
}
