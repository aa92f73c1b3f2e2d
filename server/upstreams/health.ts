import type { Clock, EpochSeconds } from '#model/clock';
import { findAgent } from '#db/agents';
import { findServerById, listEnabledServers } from '#db/servers';
import { type ServerRecord, type Target } from '#model/endpoints';
import type { Db } from '#db/transaction';
import { PlainLinks } from '#gateway/plain-calls';
import type { Upstream } from '#gateway/upstream';
import { LimitedMap } from '#model/limited-map';
import type { AgentPresence } from '#upstreams/tunnel/connected-agent';
import { upstreamLocation } from '#model/upstream-kinds';
import { inspect, type Inspected, type Inspection } from './inspect.ts';

/** Whether calls to a server can succeed now, as far as this process knows. */
export interface ServerHealth {
  readonly status:
    | 'connected'
    /** The MCP server refuses the gateway: its upstream authentication is missing or wrong. */
    | 'sign-in-required'
    /** Its agent has never connected. */
    | 'waiting-for-agent'
    /** The MCP server cannot be reached, or its agent is not connected. */
    | 'offline'
    /** It answers, but not as it should. */
    | 'error'
    | 'disabled'
    /** Not checked yet. */
    | 'unknown';
  /** A sentence for people who manage the server; it may name internal addresses. */
  readonly reason: string | undefined;
  /** When the MCP server was last asked, by a probe or a call. */
  readonly checkedAt: EpochSeconds | undefined;
  /** The protocol revision that it speaks: `2025-11-25`. */
  readonly protocol: string | undefined;
}

/** A server's upstream as a probe reaches it. */
export interface ProbedUpstream extends Pick<Inspected, 'upstream' | 'name'> {
  /** The same upstream without a token or key, if it requires one: probes never use people's tokens and keys. */
  readonly withoutToken: Upstream | undefined;
  /** Whether calls carry an assertion of the caller's identity, which a probe lacks. */
  readonly forwardsCaller: boolean;
}

export interface UpstreamHealthPorts {
  readonly db: Db;
  readonly clock: Clock;
  readonly presenceOf: (agentId: string) => AgentPresence;
  /** Whether this process can call an agent that is online. Without NATS, agents of other nodes are out of reach. */
  readonly reachesAgent: (agentId: string) => boolean;
  readonly open: (target: Target) => ProbedUpstream;
  /** Between 0 and 1. */
  readonly random: () => number;
  /** Whether this process probes servers in rounds. Default: true. */
  readonly isProbing?: boolean;
  /** Called when servers could not be read. */
  readonly onError: (error: unknown) => void;
}

const tickMs = 1000;
/** The first round waits, so that calls of people come first after a start. */
const firstRoundSeconds = 20;
const roundSeconds = 60;
const freshSeconds = 45;
/** How soon an upstream is probed again while a page shows it, or after a call failed. */
const retrySeconds = 10;
const mostPerTick = 20;
const mostAtOnce = 8;
const mostWaiting = 1000;
/** How many servers are remembered. A probe or a page adds a forgotten server again. */
const mostKnown = 20_000;
const timeoutMs = 10_000;

/** The last known state of one server. */
interface Known {
  organization: string;
  /** The location of the upstream that was inspected last; `undefined` before the first inspection. */
  place: string | undefined;
  inspection: Inspection | undefined;
  checkedAt: EpochSeconds;
  /** Whether a probe is waiting or under way. */
  isProbing: boolean;
  /** Whether a probe can find out why a call failed. */
  readonly isProbed: boolean;
}

/**
 * Finds out whether upstreams answer. Only this class probes them: one timer goes through all enabled servers in rounds of a minute,
 * a few each second, so that probes never come in a burst. Calls count too: an answered call replaces a probe, a failed
 * call brings the next probe forward to learn the reason. Commands on this host, and those of agents, are not probed, since
 * that would start them.
 */
export class UpstreamHealth {
  readonly #ports: UpstreamHealthPorts;
  readonly #links: PlainLinks;
  readonly #known = new LimitedMap<string, Known>(mostKnown);
  readonly #waiting = new Map<string, Target>();
  readonly #revisions = new LimitedMap<string, number>(mostKnown);
  readonly #timer: NodeJS.Timeout | undefined;
  #revision = 0;
  #running = 0;
  #after = '';
  #perTick = 4;
  #counted = 0;
  #roundAt: EpochSeconds;
  #isTicking = false;
  #isClosed = false;

  constructor(ports: UpstreamHealthPorts) {
    this.#ports = ports;
    this.#links = new PlainLinks(ports.clock);
    this.#roundAt = ports.clock.now() + this.#jittered(firstRoundSeconds);
    const { isProbing = true } = ports;
    if (isProbing) this.#timer = setInterval(() => void this.tick(), tickMs).unref();
  }

  /** The health of a server; `undefined` if there is none of this id. Brings its probe forward if the last one is old. */
  async of(serverId: string): Promise<ServerHealth | undefined> {
    const server = await findServerById(this.#ports.db, serverId);
    return server && this.ofServer(server);
  }

  /** The health of a server whose record was just read. */
  async ofServer(server: ServerRecord): Promise<ServerHealth> {
    const { target } = server;
    const { upstream } = target;
    if (server.disabledAt !== undefined) return health('disabled');
    if (upstream.kind === 'demo') return health('connected');
    if (upstream.kind === 'agent') {
      const problem = await this.#agentProblem(upstream.agentId, target.name);
      if (problem) return problem;
    }
    const known = this.#knownOf(target) ?? this.#add(target);
    this.#refresh(target, known);
    if (known.inspection) return healthOf(known.inspection, known.checkedAt);
    // A connected agent reports which servers it offers.
    return health(upstream.kind === 'agent' ? 'connected' : 'unknown');
  }

  /** Learns from a call. This must be fast, because every call passes here. */
  noteCall(targetId: string, outcome: string): void {
    const known = this.#known.get(targetId);
    if (!known) return;
    const now = this.#ports.clock.now();
    if (outcome === 'ok' || outcome === 'tool-error') {
      known.checkedAt = now;
      if (known.inspection?.outcome !== 'connected') this.#learn(known, { inspection: answered });
    } else if (outcome === 'upstream-error') {
      // The next refresh by a page, or the next round, probes for the reason.
      const isOld = known.checkedAt < now - retrySeconds;
      if (known.isProbed) known.checkedAt = isOld ? 0 : known.checkedAt;
      else this.#learn(known, { inspection: lastCallFailed, checkedAt: now });
    }
  }

  /** Takes over the result of an inspection by another part of the program. */
  async learn(serverId: string, inspection: Inspection): Promise<void> {
    const server = await findServerById(this.#ports.db, serverId);
    if (!server) return;
    const { target } = server;
    const known = this.#knownOf(target) ?? this.#add(target);
    const checkedAt = this.#ports.clock.now();
    this.#learn(known, { inspection, checkedAt, place: upstreamLocation(target.upstream) });
  }

  /** The number of servers that are remembered. */
  get size(): number {
    return this.#known.size;
  }

  /** A number that changes with the health of a server of the organization, or of any. */
  revision(organization?: string): number {
    if (organization === undefined) return this.#revision;
    return this.#revisions.get(organization) ?? 0;
  }

  /** Probes the servers whose turn it is; a timer calls it. */
  async tick(): Promise<void> {
    const now = this.#ports.clock.now();
    if (this.#isTicking || this.#isClosed || now < this.#roundAt) return;
    if (this.#waiting.size >= mostPerTick) return;
    this.#isTicking = true;
    try {
      const servers = await listEnabledServers(this.#ports.db, this.#after, this.#perTick);
      for (const { target } of servers) this.#probeInRound(target, now);
      this.#counted += servers.length;
      this.#after = servers.at(-1)?.id ?? '';
      if (servers.length < this.#perTick) this.#endRound(now);
    } catch (error) {
      this.#endRound(now);
      this.#ports.onError(error);
    } finally {
      this.#isTicking = false;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#waiting.clear();
    await this.#links.close();
  }

  #endRound(now: EpochSeconds): void {
    this.#perTick = Math.min(mostPerTick, Math.max(1, Math.ceil(this.#counted / roundSeconds)));
    this.#counted = 0;
    this.#after = '';
    this.#roundAt = now + this.#jittered(roundSeconds);
  }

  #jittered(seconds: number): number {
    return Math.round(seconds * (0.8 + 0.4 * this.#ports.random()));
  }

  #probeInRound(target: Target, now: EpochSeconds): void {
    const known = this.#knownOf(target);
    const isFresh = known?.inspection && known.checkedAt > now - freshSeconds;
    if (!isFresh) this.#enqueue(target);
  }

  /** Probes again for a page, when a failure is ten seconds old, or any other result a minute. */
  #refresh(target: Target, known: Known): void {
    const age = this.#ports.clock.now() - known.checkedAt;
    const isGood = known.inspection?.outcome === 'connected';
    if (age > (isGood ? roundSeconds : retrySeconds)) this.#enqueue(target);
  }

  #enqueue(target: Target): void {
    const known = this.#knownOf(target) ?? this.#add(target);
    const isFull = this.#waiting.size >= mostWaiting;
    if (this.#isClosed || isFull || known.isProbing || !this.#isProbed(target)) return;
    known.isProbing = true;
    this.#waiting.set(target.id, target);
    this.#startWaiting();
  }

  /** Whether a target may be probed. A probe must not start a program. */
  #isProbed({ upstream, name }: Target): boolean {
    if (upstream.kind === 'http') return true;
    if (upstream.kind !== 'agent' || !this.#ports.reachesAgent(upstream.agentId)) return false;
    const { isOnline, servers } = this.#ports.presenceOf(upstream.agentId);
    return isOnline && servers.some((one) => one.name === name && one.kind === 'http');
  }

  #startWaiting(): void {
    for (const [id, target] of this.#waiting) {
      if (this.#running >= mostAtOnce) return;
      this.#waiting.delete(id);
      this.#running += 1;
      void this.#probe(target);
    }
  }

  async #probe(target: Target): Promise<void> {
    const known = this.#knownOf(target) ?? this.#add(target);
    try {
      const inspection = await this.#inspect(target);
      if (this.#isClosed) return;
      const place = upstreamLocation(target.upstream);
      this.#learn(known, { inspection, checkedAt: this.#ports.clock.now(), place });
    } catch (error) {
      this.#ports.onError(error);
    } finally {
      known.isProbing = false;
      this.#running -= 1;
      this.#startWaiting();
    }
  }

  async #inspect(target: Target): Promise<Inspection> {
    const { upstream, withoutToken, forwardsCaller, name } = this.#ports.open(target);
    const place = upstreamLocation(target.upstream);
    const asked = { key: target.id, place, name, timeoutMs, wantsTools: false };
    const found = await inspect({ ...asked, upstream }, this.#links);
    const isForPeople = found.outcome === 'personal' && withoutToken !== undefined;
    const bare = isForPeople
      ? await inspect({ ...asked, upstream: withoutToken }, this.#links)
      : found;
    // Without a person, such a server can only refuse, so a refusal proves that it is reachable.
    const isRefusal = bare.outcome === 'sign-in-required' && (isForPeople || forwardsCaller);
    return isRefusal ? personal : bare;
  }

  #learn(known: Known, found: Partial<Pick<Known, 'inspection' | 'checkedAt' | 'place'>>): void {
    const before = wordsOf(known.inspection);
    Object.assign(known, found);
    if (before === wordsOf(known.inspection)) return;
    this.#revision += 1;
    this.#revisions.set(known.organization, this.#revision);
  }

  /** The last known state of a target, unless its location has changed since. */
  #knownOf({ id, upstream }: Target): Known | undefined {
    const known = this.#known.get(id);
    const isElsewhere = known?.place !== undefined && known.place !== upstreamLocation(upstream);
    return isElsewhere ? undefined : known;
  }

  #add(target: Target): Known {
    const { id, organization } = target;
    const known: Known = {
      isProbed: this.#isProbed(target),
      organization,
      place: undefined,
      inspection: undefined,
      checkedAt: 0,
      isProbing: false,
    };
    this.#known.set(id, known);
    return known;
  }

  /** Why calls do not reach the MCP server behind an agent. */
  async #agentProblem(agentId: string, server: string): Promise<ServerHealth | undefined> {
    const { isOnline, servers } = this.#ports.presenceOf(agentId);
    if (isOnline && servers.some(({ name }) => name === server)) return undefined;
    const agent = await findAgent(this.#ports.db, agentId);
    const name = agent?.name ?? '';
    if (!agent || agent.revokedAt !== undefined) {
      return health('error', `The agent ${name} is revoked.`);
    }
    if (isOnline) {
      const reason = `The agent ${name} is connected, but its configuration has no server ${server}.`;
      return health('error', reason);
    }
    return agent.lastUsedAt === undefined
      ? health('waiting-for-agent', `The agent ${name} has not connected yet.`)
      : health('offline', `The agent ${name} is not connected.`);
  }
}

const answered: Inspection = {
  outcome: 'connected',
  protocolVersion: undefined,
  tools: undefined,
};
const lastCallFailed: Inspection = { outcome: 'error', reason: 'The last call failed.' };
const personal: Inspection = {
  outcome: 'personal',
  reason: 'Each person uses their own account or key.',
};

function health(status: ServerHealth['status'], reason?: string): ServerHealth {
  return { status, reason, checkedAt: undefined, protocol: undefined };
}

function healthOf(inspection: Inspection, checkedAt: EpochSeconds): ServerHealth {
  switch (inspection.outcome) {
    case 'connected':
      return { ...health('connected'), checkedAt, protocol: inspection.protocolVersion };
    case 'personal':
      return { ...health('connected'), checkedAt };
    case 'sign-in-required':
    case 'offline':
    case 'error':
      return { ...health(inspection.outcome, inspection.reason), checkedAt };
    case 'forbidden':
      return { ...health('error', inspection.reason), checkedAt };
  }
}

/** The facts that pages show of an inspection, as a text that tells whether they have changed. */
function wordsOf(inspection: Inspection | undefined): string {
  if (!inspection) return '';
  const { status, reason = '', protocol = '' } = healthOf(inspection, 0);
  return `${status} ${reason} ${protocol}`;
}
