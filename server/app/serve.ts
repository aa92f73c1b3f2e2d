import { lookup } from 'node:dns/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { firstLink, type HandedOutLink } from '#accounts/one-time-links';
import { openIdProvider } from '#accounts/openid-provider';
import { passwordHashing } from '#accounts/passwords';
import type { AdministrationPorts } from '#admin/operation';
import { CountedRefusals } from '#audit/counted-refusals';
import type { OidcOptions } from '#config/oidc-options';
import { consoleCalls } from '#console/call-server';
import { AuditRetention } from '#audit/retention';
import { insertAuditEvent } from '#db/audit';
import { updateLastUses } from '#db/last-uses';
import type { DocumentedClient } from '#db/clients';
import { deleteOldRollups, listCountedNames, recordCalls } from '#db/rollups';
import { findServer } from '#db/servers';
import { listSigningKeys } from '#db/signing-keys';
import { findListedTools } from '#db/tool-definitions';
import { ProxyDownload, type ProxySource } from '#download/proxy-download';
import type { ProxyReference } from '#download/proxy-reference';
import { active } from '#gateway/admission';
import { type AdmissionStore } from '#db/admissions';
import { EraAdapters } from '#gateway/era-adapters';
import { Gateway } from '#gateway/gateway';
import { auditedRefusal } from '#gateway/gateway-refusal';
import { createApp } from './http-app.ts';
import { isAllowedOrigin } from '#http/guards';
import { serverSettingsRoutes } from '#http/server-settings-routes';
import type { Log } from '#log/log';
import { type AccessTokenClaims, accessTokens } from '#oauth/access-tokens';
import { clientResolver } from '#oauth/client-documents';
import { FailedAttempts } from '#oauth/failed-attempts';
import { UsageRecorder } from '#usage/last-uses';
import { readMasterKey } from '#secrets/master-key';
import { KeyRing } from '#oauth/signing-keys';
import { parseServerPath } from '#model/slug';
import { fetchText } from '#outbound/guarded-fetch';
import { NameResolver } from '#outbound/name-resolver';
import { Metrics } from '#metrics/metrics';
import type { MetricsAddress } from '#metrics/serve-metrics';
import { clientsOf } from '#upstreams/credentials/authorization-client';
import { upstreamSetup } from '#upstreams/credentials/setup';
import { openUpstreams, type UpstreamOptions } from './open-upstreams.ts';
import { socketAcceptor } from '#upstreams/tunnel/accept-socket';
import { CallMeter } from '#usage/call-meter';
import { accountGrantsOf } from '#web/account-routes';
import { changesWithHealth } from '#web/dashboard/live';
import { dashboardRoutes } from '#web/dashboard/routes';
import { providerCallbackPath } from '#web/provider-routes';
import { webhookSetup } from '#webhooks/webhook-setup';
import type { LocalBus } from '#nodes/local-bus';
import { listNodes } from '#nodes/node-registry';
import { acceptForwarded, Forwarder } from '#nodes/owner-socket';
import { openMetrics } from './open-metrics.ts';
import {
  openDatabase,
  openNodeLinks,
  type SharedDatabase,
  type SharedFolder,
} from './open-nodes.ts';
import { openSenders } from './open-senders.ts';
import type { Target } from '#model/endpoints';
import type { Stores } from './stores.ts';

const drainMs = 10_000;
const clientDocument = { timeoutMs: 3000, maxBytes: 20 * 1024 };

export interface ServeOptions extends Omit<UpstreamOptions, 'isOwner'> {
  /** The PostgreSQL database that several nodes share; without one, SQLite in `dataDir`. */
  readonly database?: SharedDatabase | undefined;
  /** Where several processes share that. */
  readonly sharedFolder?: SharedFolder | undefined;
  readonly localBus?: LocalBus | undefined;
  readonly log: Log;
  /** Where metrics are served, if they are. */
  readonly metrics?: MetricsAddress | undefined;
  readonly masterKeyFile: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly trustedProxies: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** What the first owner owns; asked for where it is `undefined`. */
  readonly firstOrganization: string | undefined;
  /** Single sign-on, where it is configured. */
  readonly oidc: OidcOptions | undefined;
  /** For how many days the audit log is kept; for ever where it is `undefined`. */
  readonly auditRetentionDays?: number | undefined;
  readonly maxBodyBytes: number;
  /** The proxy that this server hands out. */
  readonly proxy: { readonly version: string; readonly source: ProxySource };
  /** Whether anybody may register an OAuth client. */
  readonly dynamicRegistration?: boolean;
  /** Whether applications are told that a metadata document may describe them; default `true`. */
  readonly announcesClientDocuments?: boolean;
  /** Clients whose metadata documents the operator provided. */
  readonly clientDocuments?: readonly DocumentedClient[];
  /** Hosts inside this network that client metadata may be fetched from. */
  readonly outboundHosts?: readonly string[];
  /** Fetches a client metadata document; only tests have one of their own. */
  readonly fetchDocument?: (url: string) => Promise<string>;
  readonly requestTimeoutMs?: number;
  /** How long it goes on serving when it is closed, while it reports that it is not ready. */
  readonly shutdownDelayMs?: number;
}

/** A server that listens. */
export interface RunningServer {
  readonly stores: Stores & Pick<AdministrationPorts, 'upstreamSetup' | 'webhookSetup'>;
  readonly metricsUrl: string | undefined;
  /** The link that creates the first owner; `undefined` if there already is a person who can sign in. */
  firstLink(): Promise<HandedOutLink | undefined>;
  /** Where the proxy comes from; packs it where that was not done yet. */
  proxy(): Promise<ProxyReference>;
  /** After the shutdown delay, stops listening, lets calls finish for up to ten seconds, ends the rest. */
  close(): Promise<void>;
}

/** Wires everything together and listens. If it rejects, nothing is left open. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const closers: (() => Promise<void>)[] = [];
  try {
    return await open(options, closers);
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

/** The last opened first, as each stands on those before it. */
async function closeAll(closers: (() => Promise<void>)[]): Promise<void> {
  for (const close of closers.splice(0).toReversed()) await close();
}

async function open(
  options: ServeOptions,
  closers: (() => Promise<void>)[],
): Promise<RunningServer> {
  const { dataDir, base, clock, log, tracing, sharedFolder } = options;
  const isOwner = sharedFolder?.isOwner ?? true;
  closers.push(async () => tracing?.close());
  const { stores, nodes, instance } = await openDatabase(options, closers);

  const masterKeyFile = options.masterKeyFile ?? join(dataDir, 'master.key');
  const mayCreate = (await listSigningKeys(stores.db)).length === 0;
  const masterKey = readMasterKey(masterKeyFile, { mayCreate });
  const keys = await KeyRing.open(stores.db, {
    masterKey,
    clock,
    failed: (err) => log.error({ err }, 'signing keys not read'),
  });
  closers.push(async () => keys.close());
  const remote = await openNodeLinks(options, { instance, nodes, masterKey }, closers);
  const tokens = accessTokens(base, { keys, refreshKeys: () => keys.refresh(), clock });
  const endpointUrl = (serverPath: string) => `${base}/mcp/${serverPath}`;

  const usage = new UsageRecorder(
    (uses) => updateLastUses(stores.db, uses),
    (err) => log.error({ err }, 'last use not kept'),
  );
  closers.push(() => usage.close());
  const used: UsageRecorder['used'] = (use, usedAt) => usage.used(use, usedAt);

  const failed = (err: unknown) => log.error({ err }, 'calls not counted yet');
  const meter = new CallMeter(await listCountedNames(stores.db), {
    record: (tallies) => recordCalls(stores.db, tallies),
    listed: (tools) => findListedTools(stores.db, tools),
    deleteOld: async (now) => (isOwner ? deleteOldRollups(stores.db, now) : undefined),
    clock,
    failed,
  });
  closers.push(() => meter.close());

  const names = new NameResolver({
    lookup: (host) => lookup(host, { all: true }),
    nodePath: options.nodePath,
    env: options.env ?? {},
  });
  closers.push(async () => names.close());
  const guard = {
    allowedHosts: options.outboundHosts ?? [],
    resolve: (host: string) => names.resolve(host),
  };
  const {
    directory,
    tunnels,
    presence,
    agentChanges,
    health,
    upstreamOf,
    pinned,
    left,
    endedTokens,
    ...inspections
  } = await openUpstreams(
    { ...options, isOwner },
    { stores, masterKey, tokens, guard, endpointUrl, nodes, remoteAgents: remote?.agents },
    closers,
  );
  const notWritten = (err: unknown) => log.error({ err }, 'refusal not written down');
  const refusals = new CountedRefusals({
    write: (event) => insertAuditEvent(stores.db, event),
    clock,
    failed: notWritten,
  });
  closers.push(() => refusals.flush());
  const { auditRetentionDays: days } = options;
  if (days !== undefined && isOwner) {
    const retention = new AuditRetention({
      db: stores.db,
      clock,
      days,
      failed: (err) => log.error({ err }, 'old entries of the audit log not removed'),
    });
    closers.push(() => retention.close());
  }
  const { admissions, changes } = stores;
  const clientOf = clientsOf({ sealing: masterKey, guard, clock });
  const changeToken = () => changes.changeToken();
  const sendersFor = { stores, masterKey, guard, clientOf, endedTokens, changeToken, clock, log };
  const senders = isOwner ? openSenders(sendersFor, closers) : undefined;
  const administration = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: upstreamSetup({ base, sealing: masterKey, guard }),
    webhookSetup: webhookSetup({ sealing: masterKey, guard, clock }),
  };
  const metrics = options.metrics && new Metrics();
  closers.push(async () => metrics?.close());
  const gateway = new Gateway({
    base,
    maxBodyBytes: options.maxBodyBytes,
    endpointUrl,
    tokens,
    clock,
    used,
    note(call) {
      meter.note(call);
      health.noteCall(call.targetId, call.outcome);
      metrics?.countCall(call);
    },
    admissions,
    mac: (text) => masterKey.mac('gateway', text),
    upstreamOf,
    pinned,
    left,
    tracing,
    eras: new EraAdapters(clock, instance),
    presentationOf: ({ organization, name }) => findServer(stores.db, organization, name),
    isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, options.allowedOrigins),
    isElsewhere: isOwner ? undefined : (server) => needsOwner(server, options),
    nodes:
      instance === undefined ? undefined : { instance, send: remote?.send, tell: remote?.tell },
    refused: (refusal, request, principal) => {
      const { code, details } = refusal;
      metrics?.countRefusal(code);
      const { id } = request;
      const denied = auditedRefusal(refusal, request, principal);
      if (denied) refusals.note(denied).catch(notWritten);
      const level = code === 'fault' || code === 'unavailable' ? 'error' : 'info';
      log[level]({ id, code, detail: details.detail, err: details.cause }, 'call refused');
    },
  });
  closers.push(() => gateway.close());
  const guessed = (at: 'clients' | 'agents') => (subject: string) =>
    remote?.tell({ type: 'guessed', at, subject });
  const attempts = {
    clients: new FailedAttempts(clock, guessed('clients')),
    agents: new FailedAttempts(clock, guessed('agents')),
  };
  remote?.answerWith({ gateway, attempts });

  const proxyDownload = new ProxyDownload(options.proxy.version, options.proxy.source, {
    nodePath: options.nodePath,
    env: options.env ?? {},
    clock,
    failed: (what, error) =>
      what === 'proxy'
        ? log.error({ err: error }, 'no copy of the proxy to hand out')
        : log.warn(
            { reason: error instanceof Error ? error.message : String(error) },
            'no .mcpb bundle for downloads; in a source tree, npm run bundle creates one',
          ),
  });
  if (isOwner) proxyDownload.prepare();
  closers.push(async () => proxyDownload.close());
  const proxy = () => proxyDownload.reference(base);
  const fetchDocument =
    options.fetchDocument ?? ((url: string) => fetchText(url, { ...clientDocument, ...guard }));
  const identityProvider =
    options.oidc && openIdProvider({ ...options.oidc, redirectUri: base + providerCallbackPath });
  const forwarder =
    sharedFolder && !isOwner
      ? new Forwarder(sharedFolder.socket, (err) => log.warn({ err }, 'the owner did not answer'))
      : undefined;
  let isClosing = false;
  const app = createApp({
    ...options,
    keys,
    gateway,
    people: {
      ...stores,
      hashing: passwordHashing(),
      sealing: masterKey,
      refusals,
      identityProvider,
      grantsOf: accountGrantsOf(stores.db, clock),
      clock,
    },
    administration,
    proxyDownload,
    agents: {
      directory,
      clock,
      attempts: attempts.agents,
      refusals,
      hasRoomFor: (agentId) => tunnels.hasRoomFor(agentId),
      accept: socketAcceptor(tunnels),
      used: ({ keyId }) => used({ type: 'key', id: keyId }, clock.now()),
    },
    failedAttempts: attempts.clients,
    ports: {
      ...stores,
      base,
      refusals,
      tokens,
      clock,
      endpointUrl,
      used,
      resolveClient: clientResolver({
        ...stores,
        base,
        clock,
        fetchDocument,
        provided: options.clientDocuments,
      }),
      isAdmitted: isAdmitted(base, admissions),
    },
    others: [
      (routes) =>
        serverSettingsRoutes(routes, {
          base,
          endpointUrl,
          tokens,
          clock,
          admissions,
          used,
          refusals,
          administration,
          isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, options.allowedOrigins),
        }),
      (routes) =>
        dashboardRoutes(routes, {
          base,
          auditRetentionDays: options.auditRetentionDays,
          ports: {
            ...administration,
            sealing: masterKey,
            authorizationClientOf: clientOf,
            cleanUpCredentials: () => senders?.credentialCleanup.runNow() ?? Promise.resolve(),
            identityProvider,
            ...inspections,
            serverHealth: (serverId) => health.of(serverId),
            learnHealth: (serverId, inspection) => health.learn(serverId, inspection),
            listNodes: nodes && (() => listNodes(stores.db)),
            changes: changesWithHealth(changes, [...agentChanges, health]),
            presenceOf: (agentId) => presence.presenceOf(agentId),
            callServer: consoleCalls(gateway),
            proxy,
          },
        }),
    ],
    forwarder,
    async ready() {
      if (isClosing) throw new Error('this server is stopping');
      await sql`select 1`.execute(stores.db);
      nodes?.checkReady();
    },
  });
  // Before the app closes: what other nodes called ends like what was called here.
  if (remote) closers.push(() => remote.drained());
  let closeForwarded = () => Promise.resolve();
  closers.push(async () => void (await Promise.all([app.close(), closeForwarded()])));
  await app.listen({ host: options.host, port: options.port });
  if (sharedFolder && isOwner) {
    closeForwarded = await acceptForwarded(app.server, sharedFolder.socket);
  }

  const sources = {
    version: options.proxy.version,
    stores,
    nodes,
    remote,
    gateway,
    tunnels,
    meter,
    usage,
    log,
  };
  const metricsUrl =
    metrics && options.metrics && (await openMetrics(metrics, options.metrics, sources, closers));

  return {
    metricsUrl,
    stores: {
      ...stores,
      upstreamSetup: administration.upstreamSetup,
      webhookSetup: administration.webhookSetup,
    },
    proxy,
    firstLink: () => firstLink({ ...stores, clock, masterKey }),
    async close() {
      isClosing = true;
      const delayMs = options.shutdownDelayMs ?? 0;
      if (delayMs > 0) await pause(delayMs);
      const late = setTimeout(() => {
        gateway.endAll();
        tunnels.close();
        app.server.closeAllConnections();
      }, drainMs);
      // Closes connections that become idle while others finish.
      const idle = setInterval(() => app.server.closeIdleConnections(), 200);
      remote?.drain();
      gateway.endEndless();
      tunnels.drain();
      await closeAll(closers);
      clearTimeout(late);
      clearInterval(idle);
    },
  };
}

/** Whether calls to a target need what only the owner of a shared folder has: tunnels, children, or folders of skills. */
function needsOwner(
  { organization, name, upstream }: Target,
  { skillFolders }: ServeOptions,
): boolean {
  return upstream.kind !== 'http' || (skillFolders?.has(`${organization}/${name}`) ?? false);
}

/** Whether the endpoint that a token is for would let it in, asked as the gateway asks. */
function isAdmitted(base: string, admissions: AdmissionStore) {
  return async (claims: AccessTokenClaims): Promise<boolean> => {
    const { id: tokenId, clientId, grantId, subject: userId, audience } = claims;
    const at = parseServerPath(audience.slice(`${base}/mcp/`.length));
    const grant = grantId === undefined ? undefined : { id: grantId, userId };
    const found = at && (await admissions.byClient({ ...at, clientId, tokenId, grant }));
    return active(found) !== undefined;
  };
}
