import type { FastifyReply } from 'fastify';
import { notFound } from '#admin/refusal';
import { agentKeyCreate, agentKeyRevoke, type KeyView } from '#admin/keys';
import { dashboardPath } from '#web/layout';
import type { OneTimeSecret } from '#web/one-time-secret';
import { agentOf, agentPath } from './agents.ts';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';
import { rotationPage, rotationStartPage } from './rotation.ts';

const toManage = 'agent.manage';
const update =
  'Write the new key to the agent’s key file, which the agent rereads. Or run latchkey agent login again and restart the agent.';

/** `/agents/{agent}/rotate`, `/rotation/{new key}`, and revoking one key of an agent. */
export function agentKeyRoutes(guard: DashboardGuard): void {
  guard.get('/agents/:agent/rotate', toManage, startRotation);
  guard.post('/agents/:agent/rotate', toManage, rotateKey);
  guard.get('/agents/:agent/rotation/:keyId', toManage, showRotation);
  questionRoutes(guard, '/agents/:agent/keys/:keyId/revoke', toManage, keyRevocation);
}

function crumbsOf({ organization }: DashboardVisit, agent: string, last: string) {
  return [
    { text: 'Agents', href: `${dashboardPath(organization)}/agents` },
    { text: agent, href: agentPath(organization, agent) },
    { text: last },
  ];
}

/** Sends the rotation page; `secret` only in the response that creates it. */
function sendRotation(
  visit: DashboardVisit,
  reply: FastifyReply,
  agent: { readonly name: string; readonly keys: readonly KeyView[] },
  made: KeyView,
  secret: OneTimeSecret | undefined,
  { clock }: DashboardPorts,
) {
  const path = agentPath(visit.organization, agent.name);
  const older = agent.keys.filter(
    ({ id, createdAt, revokedAt }) =>
      id !== made.id &&
      createdAt <= made.createdAt &&
      (revokedAt === null || revokedAt >= made.createdAt),
  );
  const data = {
    heading: `Rotate the key of agent ${agent.name}`,
    what: 'key',
    update,
    firstUse: 'This page shows when the agent connects with the new key.',
    secret,
    made,
    replaced: older.map(({ id, hint, lastUsedAt, status }) => ({
      hint,
      lastUsedAt,
      revoke: status === 'active' ? `${path}/keys/${id}/revoke` : undefined,
    })),
    here: `${path}/rotation/${made.id}`,
    back: { text: 'View agent', href: path },
    now: clock.now(),
  };
  const at = { crumbs: crumbsOf(visit, agent.name, 'Rotate'), live: livePath(visit.organization) };
  return sendDashboardPage(reply, visit, rotationPage, data, at);
}

const startRotation: PageHandler = async (visit, request, reply) => {
  const { name } = await agentOf(visit, request);
  const cancel = agentPath(visit.organization, name);
  const heading = `Rotate the key of agent ${name}`;
  const data = { heading, what: 'key', update, action: `${cancel}/rotate`, cancel };
  const at = { crumbs: crumbsOf(visit, name, 'Rotate') };
  return sendDashboardPage(reply, visit, rotationStartPage, data, at);
};

const rotateKey: FormHandler = async (visit, _form, request, reply, { ports }) => {
  const agent = await agentOf(visit, request);
  const { organization } = visit;
  const made = await visit.perform(agentKeyCreate, { agent: agent.name });
  const secret = {
    label: 'New agent key',
    secret: made.key,
    keep: 'Store it with the agent or in a password manager.',
    done: `${agentPath(organization, agent.name)}/rotation/${made.id}`,
  };
  return sendRotation(visit, reply, agent, made, secret, ports);
};

const showRotation: PageHandler = async (visit, request, reply, { ports }) => {
  const agent = await agentOf(visit, request);
  const made = agent.keys.find(({ id }) => id === request.params['keyId']);
  if (!made) throw notFound('key');
  return sendRotation(visit, reply, agent, made, undefined, ports);
};

const keyRevocation: Question = {
  async ask(visit, request) {
    const agent = await agentOf(visit, request);
    const key = agent.keys.find(({ id }) => id === request.params['keyId']);
    if (!key) throw notFound('key');
    return {
      heading: `Revoke the key ${key.hint}?`,
      consequences: [
        `The agent ${agent.name} can no longer connect with this key. Its connection ends immediately.`,
      ],
      verb: 'Revoke key',
      cancel: agentPath(visit.organization, agent.name),
      crumbs: crumbsOf(visit, agent.name, 'Revoke key'),
    };
  },
  async act(visit, request) {
    const { organization } = visit;
    const { agent = '', keyId = '' } = request.params;
    await visit.perform(agentKeyRevoke, { agent, keyId });
    return `${agentPath(organization, agent)}?done=key-revoked`;
  },
};
