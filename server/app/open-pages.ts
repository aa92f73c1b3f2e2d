import type { FastifyInstance } from 'fastify';
import type { IdentityProvider } from '#accounts/openid-provider';
import { passwordHashing } from '#accounts/passwords';
import type { AdministrationPorts } from '#admin/operation';
import { consoleCalls } from '#console/call-server';
import type { ProxyDownload } from '#download/proxy-download';
import type { Gateway } from '#gateway/gateway';
import { listNodes, type NodeRegistry } from '#nodes/node-registry';
import { FailedAttempts } from '#oauth/failed-attempts';
import type { KeyRing } from '#oauth/signing-keys';
import type { OutboundGuard } from '#outbound/checked-addresses';
import type { clientsOf } from '#upstreams/credentials/authorization-client';
import type { CredentialCleanup } from '#upstreams/credentials/cleanup';
import { accountGrantsOf } from '#web/account-routes';
import { changesWithHealth } from '#web/dashboard/live';
import type { DashboardPorts } from '#web/dashboard/ports';
import type { SharedParts } from './open-gateway.ts';
import type { AnsweringNode } from './open-nodes.ts';
import { createPages, type PagesOptions } from './pages-app.ts';
import type { ServeOptions } from './serve-options.ts';
import type { Stores } from './stores.ts';

/** Reads the files that pages refer to. */
export { pageAssets } from '#web/assets';

export interface AppParts extends SharedParts {
  readonly keys: KeyRing;
  /** Where nodes share PostgreSQL. */
  readonly nodes: NodeRegistry | undefined;
  readonly guard: OutboundGuard;
  readonly clientOf: ReturnType<typeof clientsOf>;
  /** Single sign-on, where it is configured. */
  readonly identityProvider: IdentityProvider | undefined;
  readonly senders: { readonly credentialCleanup: CredentialCleanup } | undefined;
  readonly administration: AdministrationPorts & Stores;
  readonly gateway: Gateway;
  readonly attempts: AnsweringNode['attempts'];
  readonly scimRate: AnsweringNode['scimRate'];
  readonly proxyDownload: ProxyDownload;
  readonly ready: () => Promise<void>;
}

/** What pages and OAuth endpoints share. */
export type PagePorts = PagesOptions['ports'];

/** Makes the routes for people and for administration, ready for requests. */
export async function openPages(
  options: ServeOptions,
  parts: AppParts,
  ports: PagePorts,
): Promise<FastifyInstance> {
  const { base, clock, auditRetentionDays } = options;
  const { stores, masterKey, refusals, administration, proxyDownload, identityProvider } = parts;
  const app = createPages({
    ...options,
    people: {
      ...stores,
      hashing: passwordHashing(),
      sealing: masterKey,
      refusals,
      providerSetup: administration.providerSetup,
      identityProvider,
      grantsOf: accountGrantsOf(stores.db, clock),
      clock,
    },
    administration,
    proxyDownload,
    failedAttempts: parts.attempts.clients,
    scimRate: parts.scimRate,
    failedLogouts: new FailedAttempts(clock),
    ports,
    dashboard: { base, auditRetentionDays, ports: dashboardPorts(parts, options) },
  });
  await app.ready();
  return app;
}

function dashboardPorts(
  parts: AppParts,
  { base, outboundHosts: fixedOutboundHosts = [] }: ServeOptions,
): DashboardPorts {
  const { stores, nodes, upstreams, senders, proxyDownload, identityProvider } = parts;
  const { health, agentChanges, presence } = upstreams;
  return {
    ...parts.administration,
    sealing: parts.masterKey,
    authorizationClientOf: parts.clientOf,
    cleanUpCredentials: () => senders?.credentialCleanup.runNow() ?? Promise.resolve(),
    identityProvider,
    inspectUrl: upstreams.inspectUrl,
    inspectTools: upstreams.inspectTools,
    tryKey: upstreams.tryKey,
    serverHealth: (serverId) => health.of(serverId),
    learnHealth: (serverId, inspection) => health.learn(serverId, inspection),
    fixedOutboundHosts,
    listNodes: nodes && (() => listNodes(stores.db)),
    changes: changesWithHealth(stores.changes, [...agentChanges, health]),
    presenceOf: (agentId) => presence.presenceOf(agentId),
    callServer: consoleCalls(parts.gateway),
    proxy: () => proxyDownload.reference(base),
  };
}
