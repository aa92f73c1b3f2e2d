import { setTimeout as delay } from 'node:timers/promises';
import { requestHeaders } from 'latchkey-mcp/tunnel-frames';
import { z } from 'zod';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import {
  UpstreamError,
  type Upstream,
  type UpstreamAnswer,
  type UpstreamRequest,
} from '#gateway/upstream';
import { LimitedMap } from '#model/limited-map';
import { translateErrors } from '#model/streams';
import type { AgentTunnels } from '#upstreams/tunnel/agent-tunnels';
import { LastInstances } from '#upstreams/tunnel/connected-agent';
import { type LinkStream, NodeLinkError } from './link-stream.ts';
import type { NodeLinks } from './node-links.ts';
import { bodyIn, cancelWith, headIn, sendAnswer, sendBody, wholeBody } from './remote-calls.ts';

const maxSessions = 20_000;
const maxRoutes = 20_000;
const routeMs = 1000;
const maxRequestBytes = 64 * 1024 * 1024;
/** The pause between attempts to tell another node that a caller lost access. */
const tellEveryMs = 1000;
const maxUnconfirmedCallers = 20_000;

/** The opening of a stream: a call to an agent of another node, or the message that a caller lost access. */
const agentCallSchema = z.discriminatedUnion('to', [
  z.object({
    to: z.literal('agent'),
    agent: z.string(),
    server: z.string(),
    caller: z.string().min(1),
    process: z.string().optional(),
    /** Whether only `process` may answer, which may be connected to another node by now. */
    isForProcess: z.boolean().optional(),
    isProbe: z.boolean(),
    method: z.enum(['POST', 'GET', 'DELETE']),
    headers: z.record(z.string(), z.string()),
    key: z.object({ name: z.string(), value: z.string() }).optional(),
  }),
  z.object({ to: z.literal('agents'), left: z.string().min(1) }),
]);

const answerSchema = z.object({
  status: z.int().min(200).max(599),
  mediaType: z.string(),
  sessionId: z.string().optional(),
  /** The process of the agent that has the session. */
  process: z.string().optional(),
  retryAfterSeconds: z.number().optional(),
  bytes: z.number().optional(),
});

const errorCodes = z.enum([
  'unreachable',
  'unknown_host',
  'tls',
  'not_served',
  'timeout',
  'broken',
  'too_large',
  'encoded',
  'offline',
]);

/** A call's agent, the server behind that agent, and the caller. */
interface AgentCall {
  readonly agent: string;
  readonly server: string;
  readonly caller: string;
  readonly isProbe: boolean;
}

/** A call, and the process of the agent that has its session. */
interface SentCall extends AgentCall {
  readonly process: string | undefined;
}

export type LocalAgents = Pick<
  AgentTunnels,
  'upstreamOf' | 'takesCalls' | 'processOf' | 'hasProcess' | 'endCaller'
>;

type UsedLinks = Pick<NodeLinks, 'open' | 'announce' | 'findAgent' | 'hasJustHeard'>;

/** The node where an agent, or the process of an agent that has a session, was found. */
interface Route {
  readonly node: string;
  readonly foundAtMs: number;
}

export interface RemoteAgentsOptions {
  /** Whether this process may answer. Without the database it cannot know which agent keys were revoked. */
  readonly mayAnswer: () => boolean;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  readonly pause?: (ms: number) => Promise<unknown>;
}

/**
 * The agents of all nodes. A call goes through a tunnel of this node if there is one, otherwise to a node that has one. The calls
 * of a session go to the agent process that has the session, through any node that it is connected to; if no process is found, to
 * the node that the first call went to.
 */
export class RemoteAgents {
  readonly #links: UsedLinks;
  /** Functions that end announcements, by agent and process; '' stands for the agent itself. */
  readonly #announced = new Map<string, Map<string, () => void>>();
  /** The nodes, and the agent processes, of sessions that were opened through other nodes. */
  readonly #nodes = new LastInstances(maxSessions);
  readonly #processes = new LastInstances(maxSessions);
  /** Where agents and their processes were found a moment ago. */
  readonly #routes = new LimitedMap<string, Route>(maxRoutes);
  /** Nodes whose agents may hold state of this node's callers. */
  readonly #used = new Set<string>();
  /** Callers who lost access, by each node that has not confirmed it yet. */
  readonly #unconfirmed = new Map<string, Set<string>>();
  readonly #options: RemoteAgentsOptions;
  #tunnels: LocalAgents | undefined;
  #isDraining = false;

  constructor(links: UsedLinks, options: RemoteAgentsOptions) {
    this.#links = links;
    this.#options = options;
  }

  /** Answers calls of other nodes through these tunnels from now on. */
  serve(tunnels: LocalAgents): void {
    this.#tunnels = tunnels;
  }

  /** An agent, or one of its processes, connected to this node or disconnected. */
  notePresence(
    agentId: string,
    { takesCalls, processes }: { takesCalls: boolean; processes: readonly string[] },
  ): void {
    if (this.#isDraining) return;
    const { mayAnswer } = this.#options;
    const announced = this.#announced.get(agentId) ?? new Map<string, () => void>();
    const names = new Set(takesCalls ? ['', ...processes] : []);
    for (const [name, stop] of announced) {
      if (names.has(name)) continue;
      stop();
      announced.delete(name);
    }
    for (const name of names) {
      if (announced.has(name)) continue;
      announced.set(name, this.#links.announce(agentId, mayAnswer, name || undefined));
    }
    if (names.size > 0) this.#announced.set(agentId, announced);
    else this.#announced.delete(agentId);
  }

  /** Hides the agents of this node from the others. */
  drain(): void {
    this.#isDraining = true;
    for (const stops of this.#announced.values()) for (const stop of stops.values()) stop();
    this.#announced.clear();
  }

  /** Like `AgentTunnels.upstreamOf`, for agents at any node. */
  upstreamOf(
    agent: string,
    server: string,
    caller: string,
    { isProbe = false }: { isProbe?: boolean } = {},
  ): Upstream {
    const call = { agent, server, caller, isProbe };
    return { send: (request) => this.#send(request, call) };
  }

  /**
   * Tells the agents that a caller used, at this node and at others, that the caller lost access. While NATS is unreachable, tries
   * again every second until the other node has confirmed or is gone.
   */
  endCaller(caller: string): void {
    this.#tunnels?.endCaller(caller);
    for (const node of this.#used) {
      const unconfirmed = this.#unconfirmed.get(node);
      if (unconfirmed && unconfirmed.size < maxUnconfirmedCallers) unconfirmed.add(caller);
      if (unconfirmed) continue;
      const first = new Set([caller]);
      this.#unconfirmed.set(node, first);
      void this.#tell(node, first);
    }
  }

  /** Answers a stream that another node opened. */
  async answer(opening: unknown, stream: LinkStream): Promise<void> {
    const call = agentCallSchema.safeParse(opening).data;
    const tunnels = this.#tunnels;
    if (!call || !tunnels) return stream.reset('unreadable');
    if (call.to === 'agents') {
      tunnels.endCaller(call.left);
      stream.sendHead({});
      return stream.end();
    }
    const { agent, server, caller, process, isForProcess, isProbe, method, headers, key } = call;
    // If the agent has left since it was found, this node does not look for it elsewhere, so that no call goes in circles.
    const isHere = tunnels.takesCalls(agent) && this.#options.mayAnswer();
    const hasMoved = isForProcess && process && !tunnels.hasProcess(agent, process);
    if (!isHere || hasMoved) return stream.reset('offline', 'the agent is not connected');
    try {
      const body = await wholeBody(stream, maxRequestBytes);
      const { body: answered, ...head } = await tunnels
        .upstreamOf(agent, server, caller, { isProbe, process })
        .send({ method, headers, key, ...(body.length > 0 && { body }), signal: stream.gone });
      const { sessionId } = head;
      const opened = sessionId && tunnels.processOf(agent, { server, caller, sessionId });
      await sendAnswer(stream, { ...head, ...(opened && { process: opened }) }, answered);
    } catch (error) {
      if (!(error instanceof UpstreamError)) return stream.reset('broken');
      stream.reset(error.code, error.detail ?? error.message);
    }
  }

  async #tell(node: string, unconfirmed: Set<string>): Promise<void> {
    const { pause = (ms) => delay(ms, undefined, { ref: false }) } = this.#options;
    for (const caller of unconfirmed) {
      while (!this.#isDraining) {
        const outcome = await this.#tellOnce(node, caller);
        if (outcome === 'gone') {
          this.#used.delete(node);
          unconfirmed.clear();
        }
        if (outcome !== 'failed') break;
        await pause(tellEveryMs);
      }
      unconfirmed.delete(caller);
    }
    this.#unconfirmed.delete(node);
  }

  async #tellOnce(node: string, caller: string): Promise<'confirmed' | 'gone' | 'failed'> {
    try {
      const stream = await this.#links.open(node, { to: 'agents', left: caller });
      stream.end();
      await headIn(stream, z.object({}));
      return 'confirmed';
    } catch (error) {
      if (!(error instanceof NodeLinkError)) throw error;
      return error.code === 'gone' ? 'gone' : 'failed';
    }
  }

  async #send(request: UpstreamRequest, call: AgentCall): Promise<UpstreamAnswer> {
    const tunnels = this.#tunnels;
    if (!tunnels) throw new UpstreamError('offline', 'the server is starting');
    const { agent, server, caller, isProbe } = call;
    const id = request.headers['mcp-session-id'];
    const process = id && this.#processOf(call, id, tunnels);
    const own = tunnels.upstreamOf(agent, server, caller, { isProbe, process });
    try {
      if (process && tunnels.hasProcess(agent, process)) return await own.send(request);
      const known = await this.#sendToKnown(request, { ...call, process }, tunnels);
      if (known) return known;
      const node =
        (process && (await this.#find(agent, process))) ?? (await this.#nodeOf(call, id));
      if (node === undefined && tunnels.takesCalls(agent)) return await own.send(request);
      const first = node ?? (await this.#find(agent));
      if (first === undefined) return await own.send(request);
      try {
        return await this.#sendTo(first, request, { ...call, process });
      } catch (error) {
        // The call was not sent. By now the agent may be connected to another node, or to this one.
        if (!wasNotSent(error)) throw error;
        if (tunnels.takesCalls(agent)) return await own.send(request);
        const next = await this.#find(agent);
        // If the link ended, it may be opened again to the same node. If the agent has left that node, a second attempt is useless.
        if (next === undefined || (next === first && isOffline(error))) throw error;
        return await this.#sendTo(next, request, { ...call, process });
      }
    } catch (error) {
      throw agentError(error);
    }
  }

  /**
   * Sends a call to the node where the agent was found within the last second, without looking for the agent again, as long as
   * messages from that node keep arriving. `undefined` if nothing was sent: there is no such node, or the agent is not there any more.
   */
  async #sendToKnown(
    request: UpstreamRequest,
    call: SentCall,
    tunnels: LocalAgents,
  ): Promise<UpstreamAnswer | undefined> {
    const { agent, process } = call;
    // Without a process, a session may belong to another node than the one that was found.
    const isKnown = process !== undefined || request.headers['mcp-session-id'] === undefined;
    if (!isKnown || (process === undefined && tunnels.takesCalls(agent))) return undefined;
    const name = routeName(agent, process);
    const route = this.#routes.get(name);
    if (!route) return undefined;
    const isRecent = this.#options.nowMs() - route.foundAtMs < routeMs;
    if (!isRecent || !this.#links.hasJustHeard(route.node)) return undefined;
    try {
      return await this.#sendTo(route.node, request, { ...call, isForProcess: true });
    } catch (error) {
      if (!wasNotSent(error)) throw error;
      if (this.#routes.get(name) === route) this.#routes.delete(name);
      return undefined;
    }
  }

  /** Another node that has the agent, or the given process of it. @throws {NodeLinkError} `unreachable` */
  async #find(agent: string, process?: string): Promise<string | undefined> {
    const node = await this.#links.findAgent(agent, process === undefined ? {} : { process });
    const name = routeName(agent, process);
    if (node === undefined) this.#routes.delete(name);
    else this.#routes.set(name, { node, foundAtMs: this.#options.nowMs() });
    return node;
  }

  /** The process of the agent that has a session, through whichever node it was opened. */
  #processOf(call: AgentCall, id: string, tunnels: LocalAgents): string | undefined {
    const { agent, server, caller } = call;
    const here = tunnels.processOf(agent, { server, caller, sessionId: id });
    return here ?? this.#processes.get(sessionName(call, id));
  }

  /** The node that a session was opened through, if the agent is still there. */
  async #nodeOf(call: AgentCall, id: string | undefined): Promise<string | undefined> {
    const node = id && this.#nodes.get(sessionName(call, id));
    return node ? this.#links.findAgent(call.agent, { node }) : undefined;
  }

  async #sendTo(
    node: string,
    { method, headers, key, body, signal }: UpstreamRequest,
    call: SentCall & { readonly isForProcess?: boolean },
  ): Promise<UpstreamAnswer> {
    const opening = { to: 'agent', ...call, method, headers: requestHeaders(headers), key };
    try {
      const stream = await this.#links.open(node, opening);
      this.#used.add(node);
      cancelWith(signal, stream);
      sendBody(stream, body);
      const { bytes, process, ...head } = await headIn(stream, answerSchema);
      if (head.sessionId !== undefined) {
        const opened = sessionName(call, head.sessionId);
        this.#nodes.set(opened, node);
        if (process !== undefined) this.#processes.set(opened, process);
      }
      const answered = await bodyIn(stream, bytes);
      return {
        status: head.status,
        mediaType: head.mediaType,
        sessionId: head.sessionId,
        retryAfterSeconds: head.retryAfterSeconds,
        body: answered instanceof Uint8Array ? answered : translateErrors(answered, agentError),
      };
    } catch (error) {
      signal.throwIfAborted();
      throw agentError(error);
    }
  }
}

function routeName(agent: string, process: string | undefined): string {
  return process === undefined ? agent : `${agent} ${process}`;
}

/** Whether a call may be sent elsewhere, because nothing of it was sent. */
function wasNotSent(error: unknown): boolean {
  return isOffline(error) || (error instanceof GatewayRefusal && error.code === 'node_unreachable');
}

/** Whether nothing was sent, because the agent is not where it was looked for. */
function isOffline(error: unknown): boolean {
  return error instanceof UpstreamError && error.code === 'offline';
}

function sessionName({ agent, server, caller }: AgentCall, id: string): string {
  return `${agent} ${server} ${caller} ${id}`;
}

function agentError(error: unknown): unknown {
  return error instanceof NodeLinkError ? agentRefusal(error) : error;
}

function agentRefusal(error: NodeLinkError): UpstreamError | GatewayRefusal {
  const { code, message, reset } = error;
  switch (code) {
    case 'gone':
      return new UpstreamError('offline', message, { cause: error });
    case 'unreachable':
      return new GatewayRefusal('node_unreachable', {
        detail: 'the agent of this server',
        cause: error,
      });
    case 'broken':
      return new UpstreamError('broken', message, { cause: error });
    case 'reset': {
      const isStopping = reset?.code === 'stopping';
      const known = isStopping ? 'offline' : errorCodes.safeParse(reset?.code).data;
      const detail = reset?.detail ? { detail: reset.detail } : {};
      return new UpstreamError(known ?? 'broken', message, { cause: error, ...detail });
    }
  }
}
