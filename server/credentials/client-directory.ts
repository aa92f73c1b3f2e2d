import type { Page, PageQuery } from '#listing/page';
import type { ListedOAuthClient, OAuthClient } from './oauth-client.ts';

export interface ClientQuery extends PageQuery<'name' | 'createdAt' | 'lastUsedAt'> {
  readonly organizationId: string;
  readonly serverId?: string | undefined;
  readonly status?: 'active' | 'revoked' | undefined;
}

/** What may change about a client; what is not there stays as it is. */
export type ClientChange = Partial<Pick<OAuthClient, 'name' | 'scopes' | 'redirectUris' | 'jwks'>>;

/** OAuth clients as those who look after them see them. */
export interface ClientDirectory {
  page(query: ClientQuery): Promise<Page<ListedOAuthClient>>;

  /** Counts from the next request on; `false` when there is none, or it was revoked. */
  update(id: string, change: ClientChange): Promise<boolean>;
}
