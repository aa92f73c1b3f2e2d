import type { FastifyInstance, FastifyRequest } from 'fastify';

import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#clock/clock';
import { FailedAttempts } from '#oauth/failed-attempts';
import { OAuthRefusal } from '#oauth/oauth-refusal';
import { networkOf } from '#people/network-of';
import { subprotocol, type AcceptedRequest } from '#tunnel/accept-socket';
import { admitAgent } from '#tunnel/admit-agent';
import type { AdmittedAgent, AgentDirectory } from '#tunnel/agent-directory';
import { TunnelRefusal } from '#tunnel/tunnel-refusal';
import { agentErrorAnswer } from './agent-error-answer.ts';
import { asksForWebSocket, type Upgrades } from './upgrades.ts';

export interface AgentRouteOptions {
  readonly agents: {
    readonly directory: AgentDirectory;
    readonly clock: Clock;
    readonly refusals: RefusalLog;
    readonly hasRoomFor: (agentId: string) => boolean;
    /** Takes the connection over. */
    readonly accept: (agent: AdmittedAgent, accepted: AcceptedRequest) => void;
    readonly used: (agent: AdmittedAgent) => void;
  };
}

/** `GET /api/agents/connect`: lets agents in, by their key and nothing else, before a frame is read. */
export function agentRoute(
  app: FastifyInstance,
  { agents, upgrades }: AgentRouteOptions & { readonly upgrades: Upgrades },
): void {
  const attempts = new FailedAttempts(agents.clock);
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = agentErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'agent not let in');
    else request.log.info({ id: request.id, code: body.error }, 'agent not let in');
    return reply.code(status).headers(headers).send(body);
  });
  const connect = { exposeHeadRoute: false };
  app.get('/api/agents/connect', connect, async (request, reply) => {
    const { headers, raw } = request;
    // A browser says so by itself; a page must not even find out which keys there are.
    if (headers.origin !== undefined) throw new TunnelRefusal('browser');
    const agent = await agentOf(request, attempts, agents);
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

/** @throws {OAuthRefusal} `invalid_client`, `slow_down` */
async function agentOf(
  request: FastifyRequest,
  attempts: FailedAttempts,
  ports: AgentRouteOptions['agents'],
): Promise<AdmittedAgent> {
  const address = networkOf(request.ip);
  return attempts.guard({ address, clientId: undefined }, async () => {
    const agent = await admitAgent(request.raw.rawHeaders, ports);
    if (agent) return agent;
    const at = { address: request.ip, requestId: request.id };
    const nobody = { actor: 'nobody', organization: undefined, target: undefined };
    await ports.refusals.note({ ...nobody, action: 'agent.connect', ...at });
    throw new OAuthRefusal('invalid_client', 'an agent key that counts is needed, as X-API-Key');
  });
}
