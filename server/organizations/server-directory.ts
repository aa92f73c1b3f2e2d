import type { EpochSeconds } from '#clock/clock';
import type { Page, PageQuery } from '#listing/page';
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
  /** Since when it serves nobody; `null` lets it serve again. */
  readonly disabledAt?: EpochSeconds | null;
}

/** How a server presents itself, as who calls it may see and, allowed to, change it. */
export interface ServerSettings {
  readonly title: string;
  readonly description: string;
  readonly instructions: string;
  readonly hiddenTools: readonly string[];
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
   * Counts from the next call on; `false` when there is no such server, or none of whom all of `as` is true at
   * this moment.
   */
  update(serverId: string, change: ServerChange, as?: ServerSettings): Promise<boolean>;

  /** Removes the server with its clients, keys and grants; `false` when there is none. */
  remove(serverId: string): Promise<boolean>;

  dependents(serverId: string, now: EpochSeconds): Promise<ServerDependents>;
}
