import type { Clock } from '#clock/clock';
import type { Upstream } from '#gateway/upstream';
import type { AdmittedAgent, AgentDirectory } from './agent-directory.ts';
import { absent, type AgentPresence } from './agent-presence.ts';
import { ConnectedAgent } from './connected-agent.ts';
import { closeCode, type TunnelSocket } from './tunnel-socket.ts';
import { Tunnel } from './tunnel.ts';

const lookEveryMs = 500;
/** Pages of a busy agent are not asked for more often than this. */
const showEveryMs = 2000;
const maxTunnelsOfOne = 32;
const maxTunnels = 20_000;

export interface AgentTunnelsPorts {
  readonly directory: AgentDirectory;
  readonly clock: Clock;
  /** Milliseconds that only grow. */
  readonly nowMs: () => number;
  /** Told when the agents' standing could not be looked up. */
  readonly failed: (error: unknown) => void;
}

/**
 * The tunnels of all agents. Twice a second it looks after them: who fell silent is let go, and when
 * anything was written to the database, one question finds out whose key counts no more and what is bound
 * to whom.
 */
export class AgentTunnels {
  readonly #ports: AgentTunnelsPorts;
  readonly #agents = new Map<string, ConnectedAgent>();
  readonly #organizations = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #count = 0;
  #revision = 0;
  #shownAtMs = 0;
  #written: string | undefined;
  #isChecking = false;
  #isDraining = false;
  #lookedAtMs: number;

  constructor(ports: AgentTunnelsPorts) {
    this.#ports = ports;
    this.#lookedAtMs = ports.nowMs();
    this.#timer = setInterval(() => this.look(), lookEveryMs).unref();
  }

  /** Whether one more tunnel of this agent may stand. */
  hasRoomFor(agentId: string): boolean {
    if (this.#isDraining || this.#count >= maxTunnels) return false;
    return (this.#agents.get(agentId)?.tunnels.length ?? 0) < maxTunnelsOfOne;
  }

  /** A new tunnel of an agent that was let in just now. */
  add(agent: AdmittedAgent, socket: TunnelSocket): Tunnel {
    const connected = this.#agentOf(agent.id);
    const { nowMs, clock } = this.#ports;
    const tunnel: Tunnel = new Tunnel(agent, {
      socket,
      nowMs,
      changed: () => {
        this.#touch(agent.organization);
        connected.serve();
      },
      leftRecently: () => connected.leftRecently(),
      held: (bytes) => connected.held(bytes),
      freed: () => connected.serve(),
      troubled: (words) => {
        connected.troubled(clock.now(), words);
        this.#touch(agent.organization);
      },
    });
    connected.add(tunnel);
    this.#count += 1;
    // It may have been revoked since it was let in.
    this.#written = undefined;
    return tunnel;
  }

  /** The connection below a tunnel is gone. */
  remove(tunnel: Tunnel): void {
    const { id, organization } = tunnel.agent;
    const connected = this.#agentOf(id);
    if (!connected.tunnels.includes(tunnel)) return;
    tunnel.gone();
    connected.remove(tunnel);
    this.#count -= 1;
    this.#touch(organization);
  }

  upstreamOf(agentId: string, server: string, caller: string): Upstream {
    return this.#agentOf(agentId).upstream(server, caller);
  }

  /** Nobody comes back for a caller: the agents that they used end what they keep for them. */
  left(caller: string): void {
    for (const agent of this.#agents.values()) agent.left(caller);
  }

  presenceOf(agentId: string): AgentPresence {
    return this.#agents.get(agentId)?.presence() ?? absent;
  }

  /**
   * Another number than before, once an agent of the organization, or of any, came, left, ran into trouble or has
   * more or fewer calls.
   */
  revision(organization?: string): number {
    if (organization === undefined) return this.#revision;
    return this.#organizations.get(organization) ?? 0;
  }

  get count(): number {
    return this.#count;
  }

  /** Looks after all of them once; called by itself. */
  look(): void {
    const nowMs = this.#ports.nowMs();
    // Who was late is not the agents, when this process slept.
    const overslept = nowMs - this.#lookedAtMs > 4 * lookEveryMs;
    this.#lookedAtMs = nowMs;
    if (overslept) for (const tunnel of this.#tunnels()) tunnel.heard();
    for (const agent of this.#agents.values()) agent.look(nowMs);
    if (nowMs - this.#shownAtMs >= showEveryMs) this.#show(nowMs);
    void this.check();
  }

  /** Ends the tunnels whose keys count no more, and tells the others what is bound to them; called by itself. */
  async check(): Promise<void> {
    const { directory, clock, failed } = this.#ports;
    if (this.#isChecking || this.#count === 0) return;
    this.#isChecking = true;
    try {
      const now = clock.now();
      const tunnels = this.#tunnels();
      for (const tunnel of tunnels) {
        if ((tunnel.agent.keyExpiresAt ?? Infinity) <= now) this.#revoke(tunnel);
      }
      const written = directory.written();
      if (written === this.#written) return;
      this.#written = written;
      const keyIds = [...new Set(tunnels.map(({ agent }) => agent.keyId))];
      const standing = await directory.standing(keyIds, now);
      for (const tunnel of tunnels) {
        const servers = standing.get(tunnel.agent.keyId);
        if (servers) tunnel.bind(servers);
        else this.#revoke(tunnel);
      }
    } catch (error) {
      this.#written = undefined;
      failed(error);
    } finally {
      this.#isChecking = false;
    }
  }

  /** Opens no stream any more; each tunnel ends once nothing is under way in it. */
  drain(): void {
    this.#isDraining = true;
    for (const tunnel of this.#tunnels()) tunnel.drain();
  }

  /** Ends all of them. */
  close(): void {
    this.#isDraining = true;
    clearInterval(this.#timer);
    for (const tunnel of this.#tunnels()) tunnel.end(closeCode.goingAway, 'the server stops');
  }

  #show(nowMs: number): void {
    this.#shownAtMs = nowMs;
    for (const agent of this.#agents.values()) {
      const [tunnel] = agent.tunnels;
      if (tunnel && agent.hasMoved()) this.#touch(tunnel.agent.organization);
    }
  }

  #tunnels(): Tunnel[] {
    return [...this.#agents.values()].flatMap(({ tunnels }) => tunnels);
  }

  #agentOf(id: string): ConnectedAgent {
    const known = this.#agents.get(id) ?? new ConnectedAgent(this.#ports);
    this.#agents.set(id, known);
    return known;
  }

  #revoke(tunnel: Tunnel): void {
    tunnel.end(closeCode.revoked, 'its key counts no more');
  }

  #touch(organization: string): void {
    this.#revision += 1;
    this.#organizations.set(organization, this.#revision);
  }
}
