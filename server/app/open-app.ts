import type { FastifyInstance } from 'fastify';
import { openIdProvider } from '#accounts/openid-provider';
import { passwordHashing } from '#accounts/passwords';
import type { AdministrationPorts } from '#admin/operation';
import { consoleCalls } from '#console/call-server';
import type { ProxyDownload } from '#download/proxy-download';
import { active } from '#gateway/admission';
import type { Gateway } from '#gateway/gateway';
import { isAllowedOrigin, idleConnections } from '#http/guards';
import { serverSettingsRoutes } from '#http/server-settings-routes';
import { parseServerPath } from '#model/slug';
import { listNodes, type NodeRegistry } from '#nodes/node-registry';
import { acceptForwarded, Forwarder } from '#nodes/owner-socket';
import type { AccessTokenClaims } from '#oauth/access-tokens';
import type { KeyRing } from '#oauth/signing-keys';
import { clientResolver } from '#oauth/client-documents';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { fetchText } from '#outbound/guarded-fetch';
import type { clientsOf } from '#upstreams/credentials/authorization-client';
import type { CredentialCleanup } from '#upstreams/credentials/cleanup';
import { socketAcceptor } from '#upstreams/tunnel/accept-socket';
import { accountGrantsOf } from '#web/account-routes';
import { changesWithHealth } from '#web/dashboard/live';
import { dashboardRoutes } from '#web/dashboard/routes';
import type { DashboardPorts } from '#web/dashboard/ports';
import { providerCallbackPath } from '#web/provider-routes';
import { createApp } from './http-app.ts';
import type { SharedParts } from './open-gateway.ts';
import type { AnsweringNode } from './open-nodes.ts';
import type { Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';
import type { Stores } from './stores.ts';

const clientDocument = { timeoutMs: 3000, maxBytes: 20 * 1024 };

interface AppParts extends SharedParts {
  readonly keys: KeyRing;
  /** Where nodes share PostgreSQL. */
  readonly nodes: NodeRegistry | undefined;
  readonly guard: OutboundGuard;
  readonly clientOf: ReturnType<typeof clientsOf>;
  readonly senders: { readonly credentialCleanup: CredentialCleanup } | undefined;
  readonly administration: AdministrationPorts & Stores;
  readonly gateway: Gateway;
  readonly attempts: AnsweringNode['attempts'];
  readonly proxyDownload: ProxyDownload;
  readonly ready: () => Promise<void>;
}

/** Opens the HTTP server with all routes, and listens. `closeIdle` closes the connections on which nothing is in progress. */
export async function openApp(
  options: ServeOptions,
  parts: AppParts,
  closers: Closers,
): Promise<{ readonly app: FastifyInstance; readonly closeIdle: () => void }> {
  const { base, clock, log, oidc, sharedFolder } = options;
  const { stores, keys, masterKey, gateway, refusals, administration, isOwner, remote } = parts;
  const identityProvider =
    oidc && openIdProvider({ ...oidc, redirectUri: base + providerCallbackPath });
  const forwarder =
    sharedFolder && !isOwner
      ? new Forwarder(sharedFolder.socket, (err) => log.warn({ err }, 'the owner did not answer'))
      : undefined;
  const pages = { base, auditRetentionDays: options.auditRetentionDays };
  const ports = dashboardPorts(parts, { base, identityProvider });
  const app = createApp({
    ...options,
    keys,
    gateway,
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
    proxyDownload: parts.proxyDownload,
    agents: agentPorts(options, parts),
    failedAttempts: parts.attempts.clients,
    ports: oauthPorts(options, parts),
    others: [
      (routes) => serverSettingsRoutes(routes, settingsPorts(options, parts)),
      (routes) => dashboardRoutes(routes, { ...pages, ports }),
    ],
    forwarder,
    ready: parts.ready,
  });
  // Before the app closes, so that calls of other nodes may finish like the calls here.
  if (remote) closers.push(() => remote.drained());
  let closeForwarded = () => Promise.resolve();
  closers.push(async () => void (await Promise.all([app.close(), closeForwarded()])));
  const closeIdle = idleConnections(app.server);
  await app.listen({ host: options.host, port: options.port });
  if (sharedFolder && isOwner) {
    closeForwarded = await acceptForwarded(app.server, sharedFolder.socket);
  }
  return { app, closeIdle };
}

type AppPorts = Parameters<typeof createApp>[0];

function oauthPorts(options: ServeOptions, parts: AppParts): AppPorts['ports'] {
  const { base, clock, clientDocuments } = options;
  const { stores, refusals, tokens, endpointUrl, usage, guard } = parts;
  const fetchDocument =
    options.fetchDocument ?? ((url: string) => fetchText(url, { ...clientDocument, ...guard }));
  return {
    ...stores,
    base,
    refusals,
    tokens,
    clock,
    endpointUrl,
    used: (use, usedAt) => usage.used(use, usedAt),
    resolveClient: clientResolver({
      ...stores,
      base,
      clock,
      fetchDocument,
      provided: clientDocuments,
    }),
    isAdmitted: isAdmitted(base, stores),
  };
}

/** Whether the endpoint that a token is for would admit it, by the same query as the gateway's. */
function isAdmitted(base: string, { admissions }: Stores) {
  return async (claims: AccessTokenClaims): Promise<boolean> => {
    const { id: tokenId, clientId, grantId, subject: userId, audience } = claims;
    const at = parseServerPath(audience.slice(`${base}/mcp/`.length));
    const grant = grantId === undefined ? undefined : { id: grantId, userId };
    const found = at && (await admissions.byClient({ ...at, clientId, tokenId, grant }));
    return active(found) !== undefined;
  };
}

function agentPorts({ clock }: ServeOptions, parts: AppParts): AppPorts['agents'] {
  const { directory, tunnels } = parts.upstreams;
  return {
    directory,
    clock,
    attempts: parts.attempts.agents,
    refusals: parts.refusals,
    hasRoomFor: (agentId) => tunnels.hasRoomFor(agentId),
    accept: socketAcceptor(tunnels),
    used: ({ keyId }) => parts.usage.used({ type: 'key', id: keyId }, clock.now()),
  };
}

/** What the settings of a server need, which its own callers may read and change. */
function settingsPorts({ base, clock, allowedOrigins }: ServeOptions, parts: AppParts) {
  const { endpointUrl, tokens, stores, usage, refusals, administration } = parts;
  const settings: Parameters<typeof serverSettingsRoutes>[1] = {
    base,
    endpointUrl,
    tokens,
    clock,
    admissions: stores.admissions,
    used: (use, usedAt) => usage.used(use, usedAt),
    refusals,
    administration,
    isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, allowedOrigins),
  };
  return settings;
}

function dashboardPorts(
  parts: AppParts,
  {
    base,
    identityProvider,
  }: { base: string; identityProvider: DashboardPorts['identityProvider'] },
): DashboardPorts {
  const { stores, nodes, upstreams, senders, proxyDownload } = parts;
  const { health, agentChanges, presence } = upstreams;
  return {
    ...parts.administration,
    sealing: parts.masterKey,
    authorizationClientOf: parts.clientOf,
    cleanUpCredentials: () => senders?.credentialCleanup.runNow() ?? Promise.resolve(),
    identityProvider,
    inspectUrl: upstreams.inspectUrl,
    inspectTools: upstreams.inspectTools,
    serverHealth: (serverId) => health.of(serverId),
    learnHealth: (serverId, inspection) => health.learn(serverId, inspection),
    listNodes: nodes && (() => listNodes(stores.db)),
    changes: changesWithHealth(stores.changes, [...agentChanges, health]),
    presenceOf: (agentId) => presence.presenceOf(agentId),
    callServer: consoleCalls(parts.gateway),
    proxy: () => proxyDownload.reference(base),
  };
}
