import type { Page, PageQuery } from '#listing/page';
import type { Agent } from './agent-store.ts';

export interface AgentQuery extends PageQuery<'name' | 'createdAt' | 'lastUsedAt'> {
  readonly organizationId: string;
  readonly status?: 'active' | 'revoked' | undefined;
}

/** Agents as those who look after them see them. */
export interface AgentDirectory {
  page(query: AgentQuery): Promise<Page<Agent>>;

  /** The names of these agents, by their ids. */
  names(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
}
