import type { AdministrationPorts } from '#administration/administration-ports';
import type { AuditLog, AuditReader } from '#audit/audit-log';
import type { ProxyReference } from '#download/proxy-reference';
import type { AgentPresence } from '#tunnel/agent-presence';
import type { ChallengeStore } from '#people/challenge-store';
import type { ServerGroupStore } from '#people/group-store';
import type { Sealing } from '#people/sealing';
import type { SessionStore } from '#people/session-store';
import type { AuthorizationClient } from '#upstream-access/authorization-client';
import type { UpstreamAccess } from '#upstream-access/upstream-access';
import type { UpstreamConnectionStore } from '#upstream-access/upstream-connection';
import type { ChangeStore } from './change-store.ts';
import type { ClientUseStore } from './client-use-store.ts';
import type { TryRoutesPorts } from './try-routes.ts';
import type { UsageRoutesPorts } from './usage-routes.ts';

/** What the pages of the dashboard stand on. */
export interface DashboardPorts extends AdministrationPorts, UsageRoutesPorts, TryRoutesPorts {
  readonly sessions: Pick<SessionStore, 'use' | 'list' | 'endAll'>;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly auditReader: AuditReader;
  readonly changes: ChangeStore;
  /** Where the proxy comes from that configurations and steps run; never rejects. */
  readonly proxy: () => Promise<ProxyReference>;
  /** How an agent stands now, by its id. */
  readonly presenceOf: (agentId: string) => AgentPresence;
  readonly clientUse: ClientUseStore;
  readonly upstreamConnections: UpstreamConnectionStore;
  readonly serverGroups: Pick<ServerGroupStore, 'of' | 'set' | 'mayUse'>;
  readonly challenges: ChallengeStore;
  /** Seals what people's accounts elsewhere are used by, and makes the challenges of connecting one. */
  readonly sealing: Pick<Sealing, 'seal' | 'mac'>;
  readonly authorizationClientOf: (access: UpstreamAccess) => AuthorizationClient;
  /** Tells authorization servers of the connections that have ended, for a few seconds at most; never rejects. */
  readonly tellEnds: () => Promise<void>;
}

/** What every file of routes is made with. */
export interface DashboardOptions {
  /** The public URL. */
  readonly base: string;
  readonly ports: DashboardPorts;
}
