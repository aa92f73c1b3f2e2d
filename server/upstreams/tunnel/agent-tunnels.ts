import { closeCode, type TunnelNodes } from 'latchkey-mcp/tunnel-frames';
import { createHmac } from 'node:crypto';
import type { Clock } from '#model/clock';
import type { Upstream } from '#gateway/upstream';
import { LimitedMap } from '#model/limited-map';
import type { AdmittedAgent, AgentDirectory } from '#db/agent-directory';
import { ConnectedAgent, offlineAgent, type AgentPresence } from './connected-agent.ts';
import { Tunnel, type TunnelSocket } from './tunnel.ts';

const checkIntervalMs = 500;
/** Pages about a busy agent refresh at most this often. */
const reportIntervalMs = 2000;
const maxTunnelsPerAgent = 32;
const maxTunnels = 20_000;
const maxLeft = 1000;
const maxOrganizations = 10_000;

export interface AgentTunnelsOptions {
  readonly directory: AgentDirectory;
  readonly clock: Clock;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /** The nodes of this installation; `undefined` if there can be only one. */
  readonly nodes?: (() => TunnelNodes | undefined) | undefined;
  /** Called when an agent, or one of its processes, may have started or stopped taking calls here. */
  readonly onPresence?:
    | ((agentId: string, agent: Pick<ConnectedAgent, 'takesCalls' | 'processes'>) => void)
    | undefined;
  /** Called when the agents' keys could not be looked up. */
  readonly onError: (error: unknown) => void;
}

/**
 * The tunnels of all agents. Twice a second it ends the tunnels of agents that have become silent. After any write to the
 * database, one query finds which keys are no longer valid and which servers are bound to each agent.
 */
export class AgentTunnels {
  readonly #options: AgentTunnelsOptions;
  /** Agents with a tunnel. */
  readonly #agents = new Map<string, ConnectedAgent>();
  /** Agents whose last tunnel has ended. When they return, they learn which callers lost access meanwhile. */
  readonly #left = new LimitedMap<string, ConnectedAgent>(maxLeft);
  readonly #organizations = new LimitedMap<string, number>(maxOrganizations);
  readonly #timer: NodeJS.Timeout;
  #count = 0;
  #revision = 0;
  #reportedAtMs = 0;
  #changeToken: string | undefined;
  #toldNodes: string | undefined;
  #isCheckingKeys = false;
  #isDraining = false;
  #checkedAtMs: number;

  constructor(options: AgentTunnelsOptions) {
    this.#options = options;
    this.#checkedAtMs = options.nowMs();
    this.#timer = setInterval(() => this.checkTimeouts(), checkIntervalMs).unref();
  }

  /** Whether this agent may open another tunnel. */
  hasRoomFor(agentId: string): boolean {
    if (this.#isDraining || this.#count >= maxTunnels) return false;
    return (this.#agents.get(agentId)?.tunnels.length ?? 0) < maxTunnelsPerAgent;
  }

  /** Adds a tunnel of an agent that was just admitted. */
  add(agent: AdmittedAgent, socket: TunnelSocket): Tunnel {
    const connected = this.#known(agent.id) ?? new ConnectedAgent(this.#options);
    this.#left.delete(agent.id);
    this.#agents.set(agent.id, connected);
    const { nowMs, clock } = this.#options;
    const tunnel: Tunnel = new Tunnel(agent, {
      socket,
      nowMs,
      nodes: () => this.#options.nodes?.(),
      onChange: () => {
        this.#touch(agent.organization);
        this.#options.onPresence?.(agent.id, connected);
        connected.serveWaiting();
      },
      recentlyEndedCallers: () => connected.recentlyEndedCallers(),
      onBuffered: (bytes) => connected.countBuffered(bytes),
      onCallEnded: () => connected.serveWaiting(),
      onError: (message) => {
        connected.noteError(clock.now(), message);
        this.#touch(agent.organization);
      },
    });
    connected.add(tunnel);
    this.#count += 1;
    // Its key may have been revoked since it was admitted.
    this.#changeToken = undefined;
    return tunnel;
  }

  remove(tunnel: Tunnel): void {
    const { id, organization } = tunnel.agent;
    const connected = this.#agents.get(id);
    if (!connected?.tunnels.includes(tunnel)) return;
    tunnel.connectionLost();
    connected.remove(tunnel);
    if (connected.tunnels.length === 0) {
      this.#agents.delete(id);
      this.#left.set(id, connected);
    }
    this.#count -= 1;
    this.#touch(organization);
    this.#options.onPresence?.(id, connected);
  }

  /**
   * An agent's server as an upstream for one caller. With `isProbe`, its requests do not count as calls of a person. `process` is
   * the agent process that has the session according to another node, for a session that this node does not know.
   */
  upstreamOf(
    agentId: string,
    server: string,
    caller: string,
    { isProbe, process }: { isProbe?: boolean; process?: string | undefined } = {},
  ): Upstream {
    // Looked up for each request, because the agent may have connected or disconnected since.
    const agent = () => this.#known(agentId) ?? new ConnectedAgent(this.#options);
    return { send: (request) => agent().upstream(server, caller, isProbe, process).send(request) };
  }

  /** The process of the agent that has a session, if it was opened through this node. */
  processOf(
    agentId: string,
    { server, caller, sessionId }: { server: string; caller: string; sessionId: string },
  ): string | undefined {
    return this.#known(agentId)?.processOf(server, caller, sessionId);
  }

  /** Whether a process of the agent takes calls here. */
  hasProcess(agentId: string, process: string): boolean {
    return this.#agents.get(agentId)?.processes.includes(process) ?? false;
  }

  /** Tells the agents that served this caller to end its sessions, because it lost access. */
  endCaller(caller: string): void {
    for (const agent of this.#agents.values()) agent.endCaller(caller);
    for (const agent of this.#left.values()) agent.endCaller(caller);
  }

  isOnline(agentId: string): boolean {
    return this.#agents.get(agentId)?.isOnline ?? false;
  }

  takesCalls(agentId: string): boolean {
    return this.#agents.get(agentId)?.takesCalls ?? false;
  }

  presenceOf(agentId: string): AgentPresence {
    return this.#known(agentId)?.presence() ?? offlineAgent;
  }

  /** The state of all agents that are online here, by id. */
  presences(): ReadonlyMap<string, AgentPresence> {
    const online = [...this.#agents].filter(([, { isOnline }]) => isOnline);
    return new Map(online.map(([id, agent]) => [id, agent.presence()]));
  }

  /**
   * A number that changes when an agent of the organization connects, disconnects, fails, or has more or fewer calls; without an
   * organization, when any agent does.
   */
  revision(organization?: string): number {
    if (organization === undefined) return this.#revision;
    return this.#organizations.get(organization) ?? 0;
  }

  get count(): number {
    return this.#count;
  }

  /** How many agents are remembered, connected ones included. */
  get remembered(): number {
    return this.#agents.size + this.#left.size;
  }

  /** Runs one round of checks; a timer calls it. */
  checkTimeouts(): void {
    const nowMs = this.#options.nowMs();
    // If this process was suspended, the silence says nothing about the agents.
    const wasSuspended = nowMs - this.#checkedAtMs > 4 * checkIntervalMs;
    this.#checkedAtMs = nowMs;
    if (wasSuspended) for (const tunnel of this.#tunnels()) tunnel.noteActivity();
    for (const agent of this.#agents.values()) agent.checkTimeouts(nowMs);
    this.#tellNodes();
    if (nowMs - this.#reportedAtMs >= reportIntervalMs) this.#reportCalls(nowMs);
    void this.checkKeys();
  }

  /** Ends the tunnels whose keys are no longer valid, and tells the other agents which servers are bound to them. */
  async checkKeys(): Promise<void> {
    const { directory, clock, onError } = this.#options;
    if (this.#isCheckingKeys || this.#count === 0) return;
    this.#isCheckingKeys = true;
    try {
      const now = clock.now();
      const tunnels = this.#tunnels();
      for (const tunnel of tunnels) {
        if ((tunnel.agent.keyExpiresAt ?? Infinity) <= now) this.#revoke(tunnel);
      }
      const changeToken = directory.changeToken();
      if (changeToken === this.#changeToken) return;
      this.#changeToken = changeToken;
      const keyIds = [...new Set(tunnels.map(({ agent }) => agent.keyId))];
      const active = await directory.activeKeys(keyIds, now);
      for (const tunnel of tunnels) {
        const servers = active.get(tunnel.agent.keyId);
        if (servers) tunnel.bind(servers);
        else this.#revoke(tunnel);
      }
    } catch (error) {
      this.#changeToken = undefined;
      onError(error);
    } finally {
      this.#isCheckingKeys = false;
    }
  }

  /** Opens no more streams; each tunnel ends when its open streams are done. */
  drain(): void {
    this.#isDraining = true;
    for (const tunnel of this.#tunnels()) tunnel.drain();
  }

  close(): void {
    this.#isDraining = true;
    clearInterval(this.#timer);
    for (const tunnel of this.#tunnels()) tunnel.end(closeCode.goingAway, 'the server is stopping');
  }

  /** Tells all agents when a node joined or left the installation. */
  #tellNodes(): void {
    const nodes = this.#options.nodes?.()?.nodes.join();
    if (nodes === this.#toldNodes) return;
    this.#toldNodes = nodes;
    for (const tunnel of this.#tunnels()) tunnel.tellChanges();
  }

  #reportCalls(nowMs: number): void {
    this.#reportedAtMs = nowMs;
    for (const agent of this.#agents.values()) {
      const [tunnel] = agent.tunnels;
      if (tunnel && agent.haveCallsChanged()) this.#touch(tunnel.agent.organization);
    }
  }

  #tunnels(): Tunnel[] {
    return [...this.#agents.values()].flatMap(({ tunnels }) => tunnels);
  }

  #known(id: string): ConnectedAgent | undefined {
    return this.#agents.get(id) ?? this.#left.get(id);
  }

  #revoke(tunnel: Tunnel): void {
    tunnel.end(closeCode.revoked, 'the key is no longer valid');
  }

  #touch(organization: string): void {
    this.#revision += 1;
    this.#organizations.set(organization, this.#revision);
  }
}

/**
 * Returns a function that gives a caller (`owner`: principal and server) an opaque name for agents: always the same for one owner,
 * different for each owner. `key` is 32 bytes.
 */
export function callerNames(key: Buffer): (owner: string) => string {
  const names = new Map<string, string>();
  return (owner) => {
    const known = names.get(owner);
    if (known !== undefined) return known;
    if (names.size >= maxCallerNames) names.clear();
    const name = createHmac('sha256', key).update(owner).digest('base64url').slice(0, 32);
    names.set(owner, name);
    return name;
  };
}

/** How many names are cached. Each call needs one, and deriving it costs as much as scanning a message. */
const maxCallerNames = 10_000;
