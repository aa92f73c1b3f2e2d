import type { EpochSeconds } from '#clock/clock';
import type { Scope } from './scope.ts';

/** What a key opens: an MCP endpoint (`mcp_`) or the tunnel for an on-premise agent (`pk_live_`). */
export type ApiKeyOwner =
  | { readonly type: 'server'; readonly serverId: string }
  | { readonly type: 'agent'; readonly agentId: string };

/** A key without its value, which was shown once. */
export interface ApiKey {
  /** `key_` and 16 base62 characters. */
  readonly id: string;
  readonly name: string;
  readonly owner: ApiKeyOwner;
  /** Prefix and last four characters. */
  readonly hint: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: EpochSeconds;
  readonly expiresAt: EpochSeconds | undefined;
  readonly lastUsedAt: EpochSeconds | undefined;
  readonly revokedAt: EpochSeconds | undefined;
}

export interface NewApiKey {
  readonly id: string;
  readonly name: string;
  readonly owner: ApiKeyOwner;
  readonly hash: string;
  readonly hint: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: EpochSeconds;
  readonly expiresAt: EpochSeconds | undefined;
}

/** Where keys are kept. Reads see every write that has resolved, of any process. */
export interface ApiKeyStore {
  add(key: NewApiKey): Promise<void>;

  /** MCP keys of an organization, or of one of its servers, oldest first. */
  list(organization: string, server?: string): Promise<ApiKey[]>;

  /** `false` when there is none, or it was revoked before. */
  revoke(id: string, now: EpochSeconds): Promise<boolean>;
}
