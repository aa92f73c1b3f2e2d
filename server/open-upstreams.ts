import { setTimeout as delay } from 'node:timers/promises';

import type { Clock } from '#clock/clock';
import { openDemoLibrary } from '#demo/demo-library';
import type { GatewayPorts } from '#gateway/gateway';
import type { Logger } from '#log/log';
import { declareStdioServers } from '#organizations/declare-stdio-servers';
import type { OutboundGuard } from '#outbound/checked-addresses';
import type { AccessTokens } from '#signing/access-token';
import type { MasterKey } from '#signing/master-key';
import { SkillFolders } from '#skills/skill-folders';
import { sqliteAgentDirectory } from '#store/sqlite/agent-directory';
import { ToolWatch } from '#tools/tool-watch';
import { watchedUpstream } from '#tools/watched-upstream';
import { AgentTunnels } from '#tunnel/agent-tunnels';
import { callerNames } from '#tunnel/caller-names';
import { demoUpstream } from '#upstream/demo-upstream';
import { StdioCommands, type StdioCommandSettings } from '#upstream/stdio-commands';
import { Upstreams } from '#upstream/upstreams';
import type { EndedTokens } from '#upstream-access/ended-tokens';
import { upstreamWithHeaders } from '#upstream-access/fixed-headers';
import { UpstreamAuthorizations } from '#upstream-access/upstream-authorizations';
import type { OpenStores } from './stores.ts';

export interface UpstreamOptions {
  readonly dataDir: string;
  /** The public URL, which tokens and metadata repeat byte for byte. */
  readonly base: string;
  /** Commands behind servers, by `organization/server`; the operator's alone to choose. */
  readonly stdioServers?: ReadonlyMap<string, StdioCommandSettings>;
  /** Folders of skills, by `organization/server`; the operator's alone to choose. */
  readonly skillFolders?: ReadonlyMap<string, string>;
  /** The environment of this process, of which children get what every program needs, and nothing of ours. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly platform?: NodeJS.Platform;
  /** The Node that runs the demo's queries. */
  readonly nodePath: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface OpenedFor {
  readonly stores: OpenStores;
  readonly masterKey: MasterKey;
  readonly tokens: AccessTokens;
  readonly guard: OutboundGuard;
  readonly endpointUrl: (serverPath: string) => string;
}

/** The ways to MCP servers of every kind, and the tunnels that agents dial. */
export interface OpenUpstreams {
  readonly directory: ReturnType<typeof sqliteAgentDirectory>;
  readonly tunnels: AgentTunnels;
  readonly upstreamOf: GatewayPorts['upstreamOf'];
  readonly left: GatewayPorts['left'];
  /** Tokens of ours that upstreams do not get any more. */
  readonly endedTokens: () => Promise<readonly EndedTokens[]>;
}

/** Opens the ways to all upstreams; what is to be closed again goes on top of `closers`. */
export async function openUpstreams(
  options: UpstreamOptions,
  { stores, masterKey, tokens, guard, endpointUrl }: OpenedFor,
  closers: (() => Promise<void>)[],
): Promise<OpenUpstreams> {
  const { dataDir, base, clock, log } = options;
  const demo = openDemoLibrary({ dataDir, nodePath: options.nodePath });
  closers.push(() => demo.close());
  const directory = sqliteAgentDirectory(stores.connection);
  const tunnels = new AgentTunnels({
    directory,
    clock,
    nowMs: () => performance.now(),
    failed: (err) => log.error({ err }, 'agents not looked up'),
  });
  closers.push(async () => tunnels.close());
  const callerName = callerNames(masterKey.derive('callers of agents'));
  const commands = options.stdioServers ?? new Map<string, StdioCommandSettings>();
  for (const path of await declareStdioServers(commands.keys(), { ...stores, clock })) {
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
  const upstreams = new Upstreams({
    demo: demoUpstream(demo),
    guard,
    clock,
    stdio: (path, caller) => stdio.upstreamOf(path, callerName(caller)),
    agent: ({ agentId, server, caller }) => tunnels.upstreamOf(agentId, server, callerName(caller)),
  });
  closers.push(() => upstreams.close());
  const skills = await SkillFolders.open(options.skillFolders ?? new Map<string, string>(), {
    problem: (server, { path, message }) => log.warn({ server, path }, `skill: ${message}`),
    failed: (server, err) => log.error({ server, err }, 'skills not read'),
  });
  closers.push(() => skills.close());
  const watch = new ToolWatch({ ...stores, clock });
  const notLooked = (err: unknown) => log.error({ err }, 'list of tools not looked at');
  const fixedHeaders = {
    accesses: stores.upstreamAccesses,
    sealing: masterKey,
    clock,
    failed: (err: unknown) => log.error({ err }, 'refused fixed headers not noted'),
  };
  const authorizations = new UpstreamAuthorizations({
    base,
    endpointUrl,
    accesses: stores.upstreamAccesses,
    connections: stores.upstreamConnections,
    sealing: masterKey,
    tokens,
    guard,
    clock,
  });
  return {
    directory,
    tunnels,
    endedTokens: () => authorizations.takeEnded(),
    upstreamOf(server, owner, { userId, credential, scopes }) {
      const caller = { userId, credentialId: credential.id, scopes };
      const ports = { watch, failed: notLooked };
      const asked = upstreamWithHeaders(upstreams.of(server, owner), server, fixedHeaders);
      const watched = watchedUpstream(asked, server, ports);
      const skilled = skills.upstreamOf(server, watched, owner);
      return authorizations.authorized(skilled, server, caller);
    },
    left(owner) {
      const caller = callerName(owner);
      tunnels.left(caller);
      stdio.leave(caller).catch((err: unknown) => log.error({ err }, 'a child was not ended'));
    },
  };
}

/** Resolves after `ms`, or when `signal` aborts. */
async function quietDelay(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, signal && { signal }).catch(() => undefined);
}

/** Our log, as children's runner writes to it. */
function eventLog(log: Logger) {
  const at = (level: 'error' | 'warn' | 'info' | 'debug') => (event: string, fields?: object) =>
    log[level]({ ...fields }, event);
  return { error: at('error'), warn: at('warn'), info: at('info'), debug: at('debug') };
}
