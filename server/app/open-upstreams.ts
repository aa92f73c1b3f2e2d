import { setTimeout as delay } from 'node:timers/promises';

import type { Tracing } from 'latchkey-mcp/tracing';
import { noteNames } from '#db/collections';
import { noteHeadersRefused } from '#db/servers';
import type { Target } from '#model/endpoints';
import type { Clock } from '#model/clock';
import type { GatewayPorts } from '#gateway/gateway-parts';
import { throughSteps, type UpstreamStep } from '#gateway/upstream';
import type { Logger } from '#log/log';
import { declareStdioServers } from './declare-stdio-servers.ts';
import type { NodeRegistry } from '#nodes/node-registry';
import type { RemoteAgents } from '#nodes/remote-agents';
import { OnlineAgents } from '#upstreams/tunnel/online-agents';
import { SharedPresence } from '#nodes/shared-presence';
import type { OutboundGuard } from '#outbound/checked-addresses';
import type { AccessTokens } from '#oauth/access-tokens';
import type { MasterKey } from '#secrets/master-key';
import { DefinitionWatch } from '#tools/definition-watch';
import { pinnedDefinitions } from '#tools/pinning';
import { authorizationStep, UpstreamAuthorizations } from '#upstreams/credentials/authorization';
import { fixedHeaderStep, type FixedHeaderOptions } from '#upstreams/credentials/fixed-headers';
import { PersonKeys, requiresKey } from '#upstreams/credentials/person-keys';
import type { DemoLibrary } from '#upstreams/demo/demo-library';
import { SkillFolders } from '#upstreams/skills/skills';
import { Collections } from '#upstreams/collection/collection';
import { AgentTunnels, callerNames } from '#upstreams/tunnel/agent-tunnels';
import type { Closers } from './closers.ts';
import type { Stores } from './stores.ts';
import {
  inspectOnce,
  isCredentialed,
  isProbe,
  keyTrials,
  probed,
  probeName,
  type Routes,
  toolInspection,
} from './upstream-probes.ts';
import { openUpstream, type UpstreamResources } from '#upstreams/open-upstream';
import { UpstreamHealth } from '#upstreams/health';
import { HttpPools } from '#upstreams/http';
import { StdioCommands, type StdioCommandSettings } from '#upstreams/stdio';

export interface UpstreamOptions {
  readonly dataDir: string;
  /** The public URL of the server, which tokens and metadata contain byte for byte. */
  readonly base: string;
  /** Commands of stdio servers, by `organization/server`; only the operator can configure them. */
  readonly stdioServers?: ReadonlyMap<string, StdioCommandSettings>;
  /** The organization of the demo, which the operator may name for commands before it exists. */
  readonly firstOrganization?: string | undefined;
  /** Folders of skills, by `organization/server`; only the operator can configure them. */
  readonly skillFolders?: ReadonlyMap<string, string>;
  /** The environment of this process. Child processes get the variables that every program needs, and none of Latchkey's. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly platform?: NodeJS.Platform;
  /** The Node that runs the demo's queries. */
  readonly nodePath: string;
  /** Spans of what is sent for calls; absent unless the operator wants traces. */
  readonly tracing?: Tracing | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether this process has the commands, skills and probes, which exist once if several processes share SQLite. Default: true. */
  readonly isOwner?: boolean;
}

export interface UpstreamDependencies {
  readonly stores: Stores;
  readonly masterKey: MasterKey;
  readonly tokens: AccessTokens;
  readonly guard: OutboundGuard;
  readonly endpointUrl: (serverPath: string) => string;
  /** Where several nodes may share the database. */
  readonly nodes?: NodeRegistry | undefined;
  /** The agents of other nodes, where nodes pass calls to each other. */
  readonly remoteAgents?: RemoteAgents | undefined;
}

/** Opens the parts that the upstreams of all servers need. Appends functions that close them to `closers`. */
export async function openUpstreams(
  options: UpstreamOptions,
  dependencies: UpstreamDependencies,
  closers: Closers,
) {
  const { stores, masterKey, tokens, guard, endpointUrl, remoteAgents } = dependencies;
  const { base, clock, log, tracing, isOwner = true } = options;
  const demo = demoLibrary(options);
  closers.push(() => demo.close());
  const { tunnels, shared } = openTunnels(options, dependencies, closers);
  const presence = shared ?? tunnels;
  const agents = remoteAgents ?? tunnels;
  const callerName = callerNames(masterKey.derive('callers of agents'));
  const stdio = await openStdio(options, stores, closers);
  const pools = new HttpPools({ guard, clock });
  closers.push(() => pools.close());
  const resources: UpstreamResources = {
    http: (url, publicOnly) => pools.upstream(url, publicOnly),
    agent: (agentId, server, owner) =>
      agents.upstreamOf(agentId, server, callerName(owner), { isProbe: isProbe(owner) }),
    demo: demo.upstream,
    stdio: (path, owner) => stdio.upstreamOf(path, callerName(owner)),
    collection: (target, owner, admission) => collections.upstreamOf(target, owner, admission),
  };
  const collections = collectionsOf(options, dependencies);
  const skills = await openSkills(options, closers);
  const watch = new DefinitionWatch({ ...stores, clock });
  const fixedHeaders: FixedHeaderOptions = {
    noteRefused: (...refused) => noteHeadersRefused(stores.db, ...refused),
    sealing: masterKey,
    clock,
    onError: (err: unknown) => log.error({ err }, 'refused fixed headers not noted'),
  };
  const owned = { base, endpointUrl, db: stores.db, sealing: masterKey, tokens, guard, clock };
  const authorizations = new UpstreamAuthorizations(owned);
  const personKeys = new PersonKeys({
    ...owned,
    onError: (err: unknown) => log.error({ err }, 'the state of a key not noted'),
  });
  const credentials = { authorizations, personKeys, fixedHeaders };
  const routes: Routes = { resources, collections, ...credentials, skills, tracing };
  const health = new UpstreamHealth({
    db: stores.db,
    clock,
    presenceOf: (agentId) => presence.presenceOf(agentId),
    reachesAgent: (agentId) => remoteAgents !== undefined || tunnels.isOnline(agentId),
    open: (target) => probed(routes, target, `${probeName} ${target.id}`),
    random: Math.random,
    isProbing: isOwner,
    onError: (err) => log.error({ err }, 'servers not probed'),
  });
  closers.push(() => health.close());
  const failed = (err: unknown) => log.error({ err }, 'definitions not compared');
  const pinned = pinnedDefinitions({ watch, failed });
  const left = (owner: string) => {
    const caller = callerName(owner);
    agents.endCaller(caller);
    stdio.endCaller(caller).catch((err: unknown) => log.error({ err }, 'a child was not ended'));
  };
  return {
    directory: stores.agentDirectory,
    tunnels,
    /** The state of the agents of all nodes. */
    presence,
    /** The revisions of the connected agents of this node, and of other nodes. */
    agentChanges: shared ? [tunnels, shared] : [tunnels],
    health,
    /** Gives collections the gateway, which is opened later, to call their members through. */
    openCollections: (gateway: Parameters<Collections['open']>[0]) => collections.open(gateway),
    /** Inspects the MCP server at a URL for which no server exists yet. */
    inspectUrl: (url: string) =>
      pools.once(url, (upstream) =>
        inspectOnce({ upstream, place: url, name: new URL(url).host }, clock),
      ),
    /** The tools that the upstream of a server offers, hidden ones too; as a person where it answers people only. */
    inspectTools: toolInspection(routes, clock, { health, left, watch, failed, pinned }),
    /** Tries a key of a person, which is not stored yet, at the upstream of a server. Never rejects. */
    tryKey: keyTrials(routes, clock, left),
    /** Removes and returns the tokens of servers (not of people) that must be revoked. */
    endedTokens: () => authorizations.takeEnded(),
    pinned,
    upstreamOf: callUpstreams(routes),
    left,
  };
}

/** The upstreams of all servers, and the tunnels of agents. */
export type OpenUpstreams = Awaited<ReturnType<typeof openUpstreams>>;

/** The upstream of a target for the calls of a caller. */
function callUpstreams(routes: Routes): GatewayPorts['upstreamOf'] {
  const { resources, authorizations, personKeys, fixedHeaders, skills, tracing } = routes;
  return (target, owner, admission) => {
    const { userId, credential, scopes } = admission;
    const caller = { userId, credentialId: credential.id, scopes };
    const upstream = openUpstream(target, owner, resources, admission);
    const credentialed = isCredentialed(target) ? target : undefined;
    const required = credentialed && authorizations.credentialsFor(credentialed, caller);
    const key = requiresKey(target) ? personKeys.of(target, userId) : undefined;
    const steps = [
      required && authorizationStep(required),
      key?.step,
      skills.stepFor(target, owner),
      credentialed && fixedHeaderStep(credentialed, fixedHeaders),
      tracing && tracedStep(target, tracing),
    ];
    return {
      send: throughSteps(steps, (request) => upstream.send(request)),
      account: required?.account,
      ...(key && { secrets: key.secrets, isConnected: key.isConnected }),
      // Its members are called with the keys of the same person.
      ...(target.upstream.kind === 'collection' && {
        secrets: () => personKeys.secretsOf(userId),
      }),
      ...(required?.isConnected && { isConnected: required.isConnected }),
    };
  };
}

/** Opens the tunnels of agents. `shared` knows the agents of all nodes, where several share the database. */
function openTunnels(
  { clock, log }: UpstreamOptions,
  { stores: { db, agentDirectory: directory }, nodes, remoteAgents }: UpstreamDependencies,
  closers: Closers,
) {
  const tunnels = new AgentTunnels({
    directory,
    clock,
    nowMs: () => performance.now(),
    nodes: () => nodes && { node: nodes.instance, nodes: nodes.alive },
    onPresence: (agentId, agent) => remoteAgents?.notePresence(agentId, agent),
    onError: (err) => log.error({ err }, 'agents not looked up'),
  });
  remoteAgents?.serve(tunnels);
  const shared =
    nodes &&
    new SharedPresence({
      db,
      instance: nodes.instance,
      tunnels,
      failed: (err) => log.error({ err }, 'the connected agents of other nodes were not read'),
    });
  closers.push(async () => shared?.close());
  const failed = (err: unknown) => log.error({ err }, 'the connected agents were not written down');
  const online = new OnlineAgents({ db, clock, tunnels, failed });
  closers.push(() => online.close());
  closers.push(async () => tunnels.close());
  return { tunnels, shared };
}

/** Opens the runner of stdio upstreams. Only the owner of the data folder runs their commands. */
async function openStdio(options: UpstreamOptions, { db }: Stores, closers: Closers) {
  const { clock, log, isOwner = true } = options;
  const commands = (isOwner && options.stdioServers) || new Map<string, StdioCommandSettings>();
  const declaring = { db, clock, demo: options.firstOrganization };
  for (const path of await declareStdioServers(commands.keys(), declaring)) {
    log.info({ server: path }, 'served by a command from now on');
  }
  const stdio = new StdioCommands(commands, {
    env: options.env ?? {},
    platform: options.platform ?? 'linux',
    node: options.nodePath,
    clock: { now: () => clock.now(), sleep: quietDelay },
    log: eventLog(log),
    maxMessageBytes: 64 * 1024 * 1024,
  });
  closers.push(() => stdio.close());
  return stdio;
}

/** Opens the folders of skills. Only the owner of the data folder reads them. */
async function openSkills(
  { skillFolders, log, isOwner = true }: UpstreamOptions,
  closers: Closers,
) {
  const folders = (isOwner && skillFolders) || new Map<string, string>();
  const skills = await SkillFolders.open(folders, {
    onProblem: (server, { path, message }) => log.warn({ server, path }, `skill: ${message}`),
    onError: (server, err) => log.error({ server, err }, 'skills not read'),
  });
  closers.push(() => skills.close());
  return skills;
}

/** All collections, once `openCollections` has given them the gateway. */
function collectionsOf(
  { clock }: UpstreamOptions,
  { stores: { db }, masterKey }: UpstreamDependencies,
): Collections {
  return new Collections({
    mac: (text) => masterKey.mac('gateway', text),
    note: (collectionId, noted) => noteNames(db, collectionId, noted, clock.now()),
    now: () => clock.now(),
  });
}

/** A span for each request to an upstream. An HTTP upstream and an agent continue the trace below it. */
function tracedStep(target: Target, tracing: Tracing): UpstreamStep {
  const { kind } = target.upstream;
  const transport = transports[kind];
  const attributes = {
    'latchkey.server': `${target.organization}/${target.name}`,
    'latchkey.upstream.kind': kind,
    ...(transport !== undefined && { 'network.transport': transport }),
  };
  return (request, next) =>
    tracing.within(`${request.method} to upstream (${kind})`, attributes, request, next);
}

/** `network.transport` of spans, by kind of upstream. The demo and collections run in this process. */
const transports = {
  http: 'tcp',
  agent: 'tcp',
  stdio: 'pipe',
  demo: undefined,
  collection: undefined,
} as const;

/** The demo library, loaded with the MCP SDK at the first call. */
function demoLibrary({
  dataDir,
  nodePath,
}: UpstreamOptions): Pick<DemoLibrary, 'upstream' | 'close'> {
  let opened: Promise<DemoLibrary> | undefined;
  const open = async () => {
    const { openDemoLibrary } = await import('#upstreams/demo/demo-library');
    return openDemoLibrary({ dataDir, nodePath });
  };
  return {
    upstream: { send: async (request) => (await (opened ??= open())).upstream.send(request) },
    close: async () => (await opened)?.close(),
  };
}

/** Resolves after `ms`, or when `signal` aborts. */
async function quietDelay(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, signal && { signal }).catch(() => undefined);
}

/** Adapts the log to the interface that the runner of child processes expects. */
function eventLog(log: Logger) {
  const at = (level: 'error' | 'warn' | 'info' | 'debug') => (event: string, fields?: object) =>
    log[level]({ ...fields }, event);
  return { error: at('error'), warn: at('warn'), info: at('info'), debug: at('debug') };
}
