import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { firstLink, type HandedOutLink } from '#accounts/one-time-links';
import { ProxyDownload } from '#download/proxy-download';
import type { ProxyReference } from '#download/proxy-reference';
import type { Gateway } from '#gateway/gateway';
import { Metrics } from '#metrics/metrics';
import type { Clock } from '#model/clock';
import { FailedAttempts } from '#oauth/failed-attempts';
import { type CountedRequests, RequestRate, scimRequestsOfDirectory } from '#scim/request-rate';
import { clientsOf } from '#upstreams/credentials/authorization-client';
import type { AgentTunnels } from '#upstreams/tunnel/agent-tunnels';
import type { IdentityProvider } from '#accounts/openid-provider';
import { setupOf } from './command-setup.ts';
import { openApp } from './open-app.ts';
import { openGateway } from './open-gateway.ts';
import { openKeys } from './open-keys.ts';
import { openMetrics } from './open-metrics.ts';
import { openDatabase, openNodeLinks, type RemoteNodes } from './open-nodes.ts';
import { openActivity, openAudit, openUsage } from './open-records.ts';
import { openOutbound } from './open-outbound.ts';
import { openSenders } from './open-senders.ts';
import { openUpstreams } from './open-upstreams.ts';
import { closeAll, type Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';
import type { Stores } from './stores.ts';

const drainMs = 10_000;

export interface RunningServer {
  readonly stores: Stores & ReturnType<typeof setupOf>;
  readonly metricsUrl: string | undefined;
  /** The link that creates the first owner; `undefined` if there already is a person who can sign in. */
  firstLink(): Promise<HandedOutLink | undefined>;
  /** Returns where the proxy comes from. Packs it first if that was not done yet. */
  proxy(): Promise<ProxyReference>;
  /** After the shutdown delay, stops listening, lets calls finish for up to ten seconds, ends the rest. */
  close(): Promise<void>;
}

/** Wires everything together and listens. If it rejects, nothing is left open. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const closers: Closers = [];
  try {
    return await open(options, closers);
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

/** Opens the parts of a server, each after those that it needs. It listens last, except for metrics. */
async function open(options: ServeOptions, closers: Closers): Promise<RunningServer> {
  const { base, clock, log, tracing } = options;
  const isOwner = options.sharedFolder?.isOwner ?? true;
  const endpointUrl = (serverPath: string) => `${base}/mcp/${serverPath}`;
  closers.push(async () => tracing?.close());
  const { stores, nodes, instance } = await openDatabase(options, closers);
  const { masterKey, keys, tokens } = await openKeys(options, stores.db, closers);
  const remote = await openNodeLinks(options, { instance, nodes, masterKey }, closers);
  const { usage, meter } = await openUsage({ ...options, isOwner }, stores.db, closers);
  const recorded = { db: stores.db, masterKey };
  const activity = openActivity({ ...options, isOwner }, recorded, closers);
  const guard = await openOutbound(options, { ...stores, log }, closers);

  const basics = { stores, masterKey, tokens, guard, endpointUrl };
  const owned = { ...options, isOwner };
  const remoteAgents = remote?.agents;
  const upstreams = await openUpstreams(owned, { ...basics, nodes, remoteAgents }, closers);
  const { tunnels, presence, endedTokens } = upstreams;
  const refusals = openAudit(owned, stores.db, closers);
  const clientOf = clientsOf({ sealing: masterKey, guard, clock });
  const changeToken = () => stores.changes.changeToken();
  const serversOf = (agentId: string) => presence.presenceOf(agentId).servers;
  const setup = setupOf({ base, clock, sealing: masterKey, guard, serversOf });
  const identityProvider = await openSingleSignOn(options);
  const sent = { ...setup, base, clientOf, endedTokens, changeToken, identityProvider, clock, log };
  const senders = isOwner ? openSenders({ ...basics, ...sent }, closers) : undefined;
  const metrics = options.metrics && new Metrics();
  closers.push(async () => metrics?.close());

  const shared = { ...basics, usage, upstreams, refusals, remote, isOwner };
  const gateway = openGateway(options, { ...shared, meter, activity, metrics, instance }, closers);
  const attempts = attemptsAt(remote, clock);
  const scimRate = scimRequestRate(remote);
  remote?.answerWith({ gateway, attempts, scimRate });
  const proxyDownload = openDownload(options, { isOwner }, closers);
  const administration = { ...stores, base, clock, refusals, ...setup };
  let isClosing = false;
  const ready = async () => {
    if (isClosing) throw new Error('this server is stopping');
    await sql`select 1`.execute(stores.db);
    nodes?.checkReady();
  };
  const answering = { keys, gateway, attempts, scimRate, proxyDownload, administration, ready };
  const { app, closeIdle } = await openApp(
    options,
    { ...shared, ...answering, nodes, clientOf, identityProvider, senders },
    closers,
  );

  const { version } = options.proxy;
  const sources = { version, stores, nodes, remote, gateway, tunnels, meter, usage, activity, log };
  const metricsUrl =
    metrics && options.metrics && (await openMetrics(metrics, options.metrics, sources, closers));
  return {
    metricsUrl,
    stores: { ...stores, ...setup },
    proxy: () => proxyDownload.reference(base),
    firstLink: () => firstLink({ ...stores, clock, masterKey }),
    async close() {
      isClosing = true;
      const delayMs = options.shutdownDelayMs ?? 0;
      if (delayMs > 0) await pause(delayMs);
      await closeDrained({ gateway, tunnels, remote, app, closeIdle }, closers);
    },
  };
}

/** Lets calls in progress finish while everything closes. After ten seconds it ends those that are left. */
async function closeDrained(
  { gateway, tunnels, remote, app, closeIdle }: DrainedParts,
  closers: Closers,
): Promise<void> {
  const late = setTimeout(() => {
    gateway.endAll();
    tunnels.close();
    app.server.closeAllConnections();
  }, drainMs);
  // Closes connections that become idle while others finish.
  const idle = setInterval(closeIdle, 200);
  remote?.drain();
  gateway.endEndless();
  tunnels.drain();
  await closeAll(closers);
  clearTimeout(late);
  clearInterval(idle);
}

interface DrainedParts {
  readonly gateway: Gateway;
  readonly tunnels: AgentTunnels;
  readonly remote: RemoteNodes | undefined;
  readonly app: FastifyInstance;
  readonly closeIdle: () => void;
}

/** Single sign-on of the installation, where it is configured. Loads its library only then. */
async function openSingleSignOn({
  base,
  oidc,
}: ServeOptions): Promise<IdentityProvider | undefined> {
  if (!oidc) return undefined;
  const [{ openIdProvider }, { providerCallbackPath }] = await Promise.all([
    import('#accounts/openid-provider'),
    import('#web/provider-routes'),
  ]);
  return openIdProvider({ ...oidc, redirectUri: base + providerCallbackPath });
}

/** Counts failed attempts across all nodes: to guess credentials of clients, and of agents. */
function attemptsAt(remote: RemoteNodes | undefined, clock: Clock) {
  const guessed = (at: 'clients' | 'agents') => (subject: string) =>
    remote?.tell({ type: 'guessed', at, subject });
  return {
    clients: new FailedAttempts(clock, guessed('clients')),
    agents: new FailedAttempts(clock, guessed('agents')),
  };
}

/** Counts the requests of directories across all nodes. */
function scimRequestRate(remote: RemoteNodes | undefined): RequestRate {
  const tell =
    remote && ((counts: CountedRequests[]) => remote.tell({ type: 'provisioned', counts }));
  return new RequestRate(scimRequestsOfDirectory, tell && { tell });
}

/** Opens the download of the proxy. The owner prepares it now, because packing takes a while. */
function openDownload(
  { proxy, nodePath, env = {}, clock, log }: ServeOptions,
  { isOwner }: { readonly isOwner: boolean },
  closers: Closers,
): ProxyDownload {
  const download = new ProxyDownload(proxy.version, proxy.source, {
    nodePath,
    env,
    clock,
    failed: (what, error) =>
      what === 'proxy'
        ? log.error({ err: error }, 'no copy of the proxy to hand out')
        : log.warn(
            { reason: error instanceof Error ? error.message : String(error) },
            'no .mcpb bundle for downloads; in a source tree, npm run bundle creates one',
          ),
    programFailed: (file, error) =>
      log.warn(
        { file, reason: error instanceof Error ? error.message : String(error) },
        'a program in the download folder is not offered',
      ),
  });
  if (isOwner) download.prepare();
  closers.push(async () => download.close());
  return download;
}
