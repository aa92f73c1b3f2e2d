import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { subprotocol } from 'latchkey-mcp/tunnel-frames';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#model/clock';
import type { FailedAttempts } from '#oauth/failed-attempts';
import type { AcceptedRequest } from '#upstreams/tunnel/accept-socket';
import { admitAgent, TunnelRefusal } from '#upstreams/tunnel/agent-admission';
import { type AdmittedAgent, type AgentDirectory } from '#db/agent-directory';
import { agentErrorAnswer } from './error-answers.ts';
import { authenticated } from './guards.ts';

export interface AgentRouteOptions {
  readonly agents: {
    readonly directory: AgentDirectory;
    readonly clock: Clock;
    /** Counts wrong keys of agents. */
    readonly attempts: FailedAttempts;
    readonly refusals: RefusalLog;
    readonly hasRoomFor: (agentId: string) => boolean;
    /** Takes over the connection. */
    readonly accept: (agent: AdmittedAgent, accepted: AcceptedRequest) => void;
    readonly used: (agent: AdmittedAgent) => void;
  };
}

/** `GET /api/agents/connect`: authenticates an agent by its key before any frame is read. */
export function agentRoute(
  app: FastifyInstance,
  { agents, upgrades }: AgentRouteOptions & { readonly upgrades: Upgrades },
): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = agentErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'agent not let in');
    else request.log.info({ id: request.id, code: body.error }, 'agent not let in');
    return reply.code(status).headers(headers).send(body);
  });
  const connect = { exposeHeadRoute: false };
  app.get('/api/agents/connect', connect, async (request, reply) => {
    const { headers, raw } = request;
    // Browsers always send `Origin`. A web page must not even find out which keys are valid.
    if (headers.origin !== undefined) throw new TunnelRefusal('browser');
    const agent = await authenticated(request, () => admitAgent(raw.rawHeaders, agents), {
      ...agents,
      action: 'agent.connect',
      words: 'missing or invalid agent key in X-API-Key',
    });
    if (!asksForWebSocket(raw) || !upgrades.has(raw)) throw new TunnelRefusal('no_upgrade');
    const offered = headers['sec-websocket-protocol']?.split(',').map((name) => name.trim());
    if (!offered?.includes(subprotocol)) throw new TunnelRefusal('bad_subprotocol');
    if (!agents.hasRoomFor(agent.id)) throw new TunnelRefusal('full');
    const upgrade = upgrades.take(raw);
    if (!upgrade) throw new TunnelRefusal('no_upgrade');
    reply.hijack();
    agents.used(agent);
    agents.accept(agent, { request: raw, ...upgrade });
    const { organization, name, keyId } = agent;
    request.log.info(
      { id: request.id, agent: `${organization}/${name}`, keyId },
      'agent connected',
    );
    return reply;
  });
}

/** The connection of a request that asks for another protocol. */
export interface Upgrade {
  readonly socket: Socket;
  /** Bytes that arrived after the request. */
  readonly head: Buffer;
}

/** Whether a request asks for a WebSocket. RFC 6455 §4.1 */
export function asksForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * Sends upgrade requests through the same routes and checks as all others. A route takes over the connection with
 * `take`; any other response ends it.
 */
export class Upgrades {
  readonly #waiting = new WeakMap<IncomingMessage, Upgrade & { response: ServerResponse }>();

  /** @param route handles a request */
  listen(
    server: Server,
    route: (request: IncomingMessage, response: ServerResponse) => void,
  ): void {
    server.on('upgrade', (request, stream, head) => {
      const { socket } = request;
      stream.on('error', () => socket.destroy());
      const response = new ServerResponse(request);
      socket.on('error', () => socket.destroy());
      response.shouldKeepAlive = false;
      try {
        response.assignSocket(socket);
      } catch {
        // An earlier request on this connection is still unanswered. No genuine client upgrades before it has the answer.
        socket.destroy();
        return;
      }
      response.on('finish', () => socket.end());
      this.#waiting.set(request, { socket, head, response });
      route(request, response);
    });
  }

  /** The connection of a request, which the caller now owns; `undefined` if the request is not an upgrade. */
  take(request: IncomingMessage): Upgrade | undefined {
    const found = this.#waiting.get(request);
    if (!found) return undefined;
    this.#waiting.delete(request);
    const { socket, head, response } = found;
    response.detachSocket(socket);
    return { socket, head };
  }

  /** Whether the connection of this request can be taken over. */
  has(request: IncomingMessage): boolean {
    return this.#waiting.has(request);
  }
}
