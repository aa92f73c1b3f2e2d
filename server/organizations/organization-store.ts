import type { EpochSeconds } from '#clock/clock';
import type { NewServer, ServerRecord } from './server-record.ts';

export interface Organization {
  readonly id: string;
  readonly name: string;
  /** What pages call it; its name where nobody chose one. */
  readonly title?: string;
  readonly createdAt: EpochSeconds;
}

/** Where organizations and their MCP servers are kept. Names are slugs, unique within their owner. */
export interface OrganizationStore {
  /** `false` when the name is taken. */
  add(organization: Organization): Promise<boolean>;

  byName(name: string): Promise<Organization | undefined>;

  /** `false` when the organization has a server of that name. */
  addServer(server: NewServer): Promise<boolean>;

  serverByName(organization: string, server: string): Promise<ServerRecord | undefined>;

  /** Hides exactly these tools of a server from now on. */
  hideTools(serverId: string, tools: readonly string[]): Promise<void>;
}
