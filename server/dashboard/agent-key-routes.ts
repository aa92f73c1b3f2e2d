import type { FastifyReply } from 'fastify';

import { notFound } from '#administration/administration-refusal';
import { agentKeyCreate, agentKeyRevoke } from '#administration/agent-key-operations';
import { perform } from '#administration/perform';
import type { ShownKey } from '#administration/shown-key';
import { dashboardPath } from '#pages/dashboard-frame';
import type { ShownSecret } from '#pages/secret-pieces';
import { agentOf } from './agent-of.ts';
import { agentPath } from './agent-path.ts';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { livePath } from './live-routes.ts';
import { questionRoutes } from './question-routes.ts';
import { rotationPage, rotationStartPage } from './rotation-page.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

const needs = { permission: 'agent.manage', section: 'agents' } as const;
const update =
  'Where the agent runs, give it the new key: put it into its key file, which it reads by itself, or run latchkey agent login again and start the agent anew.';

/** `/agents/{agent}/rotate`, `/rotation/{new key}`, and revoking one key of an agent. */
export function agentKeyRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const { clock } = ports;
  const crumbs = ({ organization }: DashboardVisit, agent: string, last: string) => [
    { text: 'Agents', href: `${dashboardPath(organization)}/agents` },
    { text: agent, href: agentPath(organization, agent) },
    { text: last },
  ];

  const show = (
    visit: DashboardVisit,
    reply: FastifyReply,
    agent: { readonly name: string; readonly keys: readonly ShownKey[] },
    made: ShownKey,
    secret: ShownSecret | undefined,
  ) => {
    const path = agentPath(visit.organization, agent.name);
    const older = agent.keys.filter(
      ({ id, createdAt, revokedAt }) =>
        id !== made.id &&
        createdAt <= made.createdAt &&
        (revokedAt === null || revokedAt >= made.createdAt),
    );
    const data = {
      heading: `Rotate the key of the agent ${agent.name}`,
      what: 'key',
      update,
      firstUse: 'As soon as the agent connects with it, that shows here.',
      secret,
      made,
      replaced: older.map(({ id, hint, lastUsedAt, status }) => ({
        hint,
        lastUsedAt,
        revoke: status === 'active' ? `${path}/keys/${id}/revoke` : undefined,
      })),
      here: `${path}/rotation/${made.id}`,
      back: { text: 'To the agent', href: path },
      now: clock.now(),
    };
    const at = { crumbs: crumbs(visit, agent.name, 'Rotate'), live: livePath(visit.organization) };
    return sendDashboardPage(reply, visit, rotationPage, data, at);
  };

  door.get('/agents/:agent/rotate', needs, async (visit, request, reply) => {
    const { name } = await agentOf(visit, request, ports);
    const cancel = agentPath(visit.organization, name);
    const heading = `Rotate the key of the agent ${name}`;
    const data = { heading, what: 'key', update, action: `${cancel}/rotate`, cancel };
    const at = { crumbs: crumbs(visit, name, 'Rotate') };
    return sendDashboardPage(reply, visit, rotationStartPage, data, at);
  });

  door.post('/agents/:agent/rotate', needs, async (visit, _form, request, reply) => {
    const agent = await agentOf(visit, request, ports);
    const { organization, actor } = visit;
    const input = { organization, agent: agent.name };
    const made = await perform(agentKeyCreate, input, actor, ports);
    return show(visit, reply, agent, made, {
      label: 'New agent key',
      secret: made.key,
      beside: [],
      configurations: [],
      keep: 'With the agent program, or in a password manager.',
      done: `${agentPath(organization, agent.name)}/rotation/${made.id}`,
    });
  });

  door.get('/agents/:agent/rotation/:keyId', needs, async (visit, request, reply) => {
    const agent = await agentOf(visit, request, ports);
    const made = agent.keys.find(({ id }) => id === request.params['keyId']);
    if (!made) throw notFound('key');
    return show(visit, reply, agent, made, undefined);
  });

  questionRoutes(door, '/agents/:agent/keys/:keyId/revoke', needs, {
    async ask(visit, request) {
      const agent = await agentOf(visit, request, ports);
      const key = agent.keys.find(({ id }) => id === request.params['keyId']);
      if (!key) throw notFound('key');
      return {
        heading: `Revoke the key ${key.hint}?`,
        consequences: [
          `The agent ${agent.name} connects with it no more; a connection that it holds ends now.`,
        ],
        verb: 'Revoke the key',
        cancel: agentPath(visit.organization, agent.name),
        crumbs: crumbs(visit, agent.name, 'Revoke a key'),
      };
    },
    async act(visit, request) {
      const { organization, actor } = visit;
      const { agent = '', keyId = '' } = request.params;
      await perform(agentKeyRevoke, { organization, agent, keyId }, actor, ports);
      return `${agentPath(organization, agent)}?done=key-revoked`;
    },
  });
}
