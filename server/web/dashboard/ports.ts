import type { UpstreamAccess } from '#db/upstream-access';
import type { AdministrationPorts } from '#admin/operation';
import type { ProxyReference } from '#download/proxy-reference';
import type { AgentPresence } from '#upstreams/tunnel/connected-agent';
import type { Sealing } from '#oauth/master-key';
import type { AuthorizationClient } from '#upstreams/credentials/authorization-client';
import type { ChangeStore } from './live.ts';
import type { TryRoutesPorts } from './try.ts';
import type { UsageRoutesPorts } from './usage.ts';

/** What the pages of the dashboard need. */
export interface DashboardPorts extends AdministrationPorts, UsageRoutesPorts, TryRoutesPorts {
  readonly changes: ChangeStore;
  /** The source of the proxy for configurations and instructions; never rejects. */
  readonly proxy: () => Promise<ProxyReference>;
  /** The current state of an agent, by its id. */
  readonly presenceOf: (agentId: string) => AgentPresence;
  /** Seals the tokens of people's upstream accounts, and issues challenges for connecting one. */
  readonly sealing: Pick<Sealing, 'seal' | 'mac'>;
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
  readonly ports: DashboardPorts;
}
