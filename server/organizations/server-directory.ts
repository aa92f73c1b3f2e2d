import type { EpochSeconds } from '#clock/clock';
import type { Page, PageQuery } from '#listing/page';
import type { ServerLimits } from './server-limits.ts';
import type { ServerRecord } from './server-record.ts';

export interface ServerQuery extends PageQuery<'name' | 'createdAt'> {
  readonly organizationId: string;
  readonly status?: 'enabled' | 'disabled' | undefined;
  /** Only those that this agent serves. */
  readonly agentId?: string | undefined;
}

/** What may change about a server; what is not there stays as it is. */
export interface ServerChange extends Partial<
  Pick<
    ServerRecord,
    'title' | 'description' | 'instructions' | 'hiddenTools' | 'changedTools' | 'upstream'
  >
> {
  /** `null` lifts all. */
  readonly limits?: ServerLimits | null;
  /** Since when it serves nobody; `null` lets it serve again. */
  readonly disabledAt?: EpochSeconds | null;
}

/** What stops working with a server. */
export interface ServerDependents {
  readonly activeKeys: number;
  readonly activeClients: number;
  /** Grants of people to applications that are in force. */
  readonly activeGrants: number;
}

/** MCP servers as those who look after them see them. */
export interface ServerDirectory {
  page(query: ServerQuery): Promise<Page<ServerRecord>>;

  /**
   * Counts from the next call on; `false` when there is no such server. With `revision` only the record of that
   * revision is changed: of two who read the same one, the second gets `false`.
   */
  update(serverId: string, change: ServerChange, revision?: number): Promise<boolean>;

  /** Removes the server with its clients, keys and grants; `false` when there is none. */
  remove(serverId: string): Promise<boolean>;

  dependents(serverId: string, now: EpochSeconds): Promise<ServerDependents>;
}
