import type { IdentityProvider } from '#accounts/openid-provider';
import type { ServerRecord } from '#model/endpoints';
import type { UpstreamAccess } from '#db/upstream-access';
import type { AdministrationPorts } from '#admin/operation';
import type { NodeRecord } from '#nodes/node-registry';
import type { ProxyReference } from '#download/proxy-reference';
import type { ServerHealth } from '#upstreams/health';
import type { Inspection, KeyTrial } from '#upstreams/inspect';
import type { AgentPresence } from '#upstreams/tunnel/connected-agent';
import type { Sealing } from '#secrets/master-key';
import type { AuthorizationClient } from '#upstreams/credentials/authorization-client';
import type { ChangeStore } from '#db/changes';
import type { CallServer } from '#console/call-server';

/** The data and operations that the pages of the dashboard need. */
export interface DashboardPorts extends AdministrationPorts {
  /** Calls a server through the gateway. */
  readonly callServer: CallServer;
  readonly changes: ChangeStore;
  /** The nodes that share the database; absent where there is one process. */
  readonly listNodes?: (() => Promise<readonly NodeRecord[]>) | undefined;
  /** The hosts in private networks that the options of the server allow. */
  readonly fixedOutboundHosts: readonly string[];
  /** Single sign-on, where it is configured. */
  readonly identityProvider: IdentityProvider | undefined;
  /** The source of the proxy for configurations and instructions; never rejects. */
  readonly proxy: () => Promise<ProxyReference>;
  /** The current state of an agent, by its id. */
  readonly presenceOf: (agentId: string) => AgentPresence;
  /**
   * Whether calls to a server can succeed now, by its id; `undefined` if there is no such server. Pages with a live stream
   * refresh when it changes.
   */
  readonly serverHealth: (serverId: string) => Promise<ServerHealth | undefined>;
  /** Stores the result of an inspection for pages that show the health of this server. */
  readonly learnHealth: (serverId: string, inspection: Inspection) => Promise<void>;
  /** Inspects an MCP server at a URL on the public internet, before a server is created for it. Never rejects. */
  readonly inspectUrl: (url: string) => Promise<Inspection>;
  /** The tools that the upstream of a server offers, including hidden ones. An upstream that requires personal accounts is called as this person. Never rejects. */
  readonly inspectTools: (server: ServerRecord, userId: string) => Promise<Inspection>;
  /** Tries a key that this person entered at the upstream of a server, before it is stored. Never rejects. */
  readonly tryKey: (server: ServerRecord, userId: string, key: string) => Promise<KeyTrial>;
  /** Seals the tokens and keys of people's upstream accounts, and issues challenges for connecting one. */
  readonly sealing: Pick<Sealing, 'seal' | 'open' | 'mac'>;
  readonly authorizationClientOf: (access: UpstreamAccess) => AuthorizationClient;
  /**
   * Revokes the tokens of ended connections at their authorization servers, for at most a few seconds; never rejects.
   */
  readonly cleanUpCredentials: () => Promise<void>;
}

/** The options of every file of routes. */
export interface DashboardOptions {
  /** The public URL. */
  readonly base: string;
  /** How long the audit log keeps entries; without it, forever. */
  readonly auditRetentionDays?: number | undefined;
  readonly ports: DashboardPorts;
}
