import type { EpochSeconds } from '#clock/clock';
import type { Page, PageQuery } from '#listing/page';
import type { ApiKey } from './api-key.ts';

/** A key, and whose it is: exactly one of `server` and `agent` is a name. */
export interface PlacedApiKey extends ApiKey {
  readonly organization: string;
  readonly server: string | undefined;
  readonly agent: string | undefined;
}

export type KeyStatus = 'active' | 'expired' | 'revoked';

export interface KeyQuery extends PageQuery<'name' | 'createdAt' | 'lastUsedAt' | 'expiresAt'> {
  readonly organizationId: string;
  /** Of one server, of one agent, or, where neither is given, of all servers. */
  readonly serverId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly status?: KeyStatus | undefined;
  /** Decides what is expired. */
  readonly now: EpochSeconds;
}

/** Keys as those who look after them see them. */
export interface KeyDirectory {
  page(query: KeyQuery): Promise<Page<PlacedApiKey>>;

  /** `undefined` when there never was one. */
  byId(id: string): Promise<PlacedApiKey | undefined>;
}
