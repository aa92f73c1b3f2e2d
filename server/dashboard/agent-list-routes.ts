import type { FastifyReply } from 'fastify';

import { agentCreate, agentList } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { agentSteps } from '#pages/agent-steps';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import { agentFormPage } from './agent-form-page.ts';
import { agentPath } from './agent-path.ts';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { sendListPage } from './send-list-page.ts';
import { shownOncePage } from './shown-once-page.ts';

const look = { permission: 'agent.read', section: 'agents' } as const;
const manage = { permission: 'agent.manage', section: 'agents' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'In force' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Key' },
    { text: 'Last connected', sort: 'last_used_at' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Actions' },
  ],
  usual: { sort: 'name', order: 'asc' },
} as const;
const online = { text: 'online', tone: 'good' } as const;
const offline = { text: 'offline', tone: 'plain' } as const;
const labels = { name: { field: 'name', label: 'The name' } };
const notices: Readonly<Record<string, string>> = {
  revoked: 'The agent is revoked, and every key of it.',
};

/** `/agents` and `/new-agent`. */
export function agentListRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/agents', look, async (visit, request, reply) => {
    const { organization, actor } = visit;
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization };
    const { items, total } = await perform(agentList, wanted, actor, ports);
    const create = { text: 'Create agent', href: `${dashboardPath(organization)}/new-agent` };
    const action = visit.may('agent.manage') ? create : undefined;
    const rows = items.map((agent) => {
      const path = agentPath(organization, agent.name);
      const isOver = agent.revokedAt !== null;
      const of = agent.name;
      const actions = [
        { text: 'Rotate key', href: `${path}/rotate`, of },
        { text: 'Revoke', href: `${path}/revoke`, of, danger: true },
      ];
      const { isOnline } = ports.presenceOf(agent.id);
      const badges = isOver
        ? [{ text: 'revoked', tone: 'plain' } as const]
        : [isOnline ? online : offline];
      return {
        id: agent.id,
        isOver,
        cells: [
          { kind: 'name', text: agent.name, href: path, badges },
          { kind: 'hint', text: agent.keyHint ?? 'none' },
          { kind: 'time', at: agent.lastUsedAt ?? undefined, otherwise: 'never' },
          { kind: 'time', at: agent.createdAt, otherwise: '' },
          { kind: 'actions', actions: action && !isOver ? actions : [] },
        ] as const,
      };
    });
    const list = {
      heading: 'Agents',
      lead: 'Programs inside your private networks that dial out to this server.',
      caption: 'Agents',
      action,
      tabs: undefined,
      notice: notices[queryText(request, 'done') ?? ''],
      query,
      rows,
      total,
      none: 'No agents yet. An agent connects MCP servers inside a private network to this server.',
      noneLikeThat: 'No agent is like that.',
      now: clock.now(),
    };
    const at = { crumbs: [{ text: 'Agents' }], live: livePath(organization) };
    return sendListPage(reply, visit, list, at);
  });

  const form = (visit: DashboardVisit, reply: FastifyReply, name: string, errors: FieldError[]) => {
    const home = dashboardPath(visit.organization);
    const data = { action: `${home}/new-agent`, cancel: `${home}/agents`, name, errors };
    const crumbs = [{ text: 'Agents', href: `${home}/agents` }, { text: 'Create agent' }];
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, agentFormPage, data, { crumbs, status });
  };

  door.get('/new-agent', manage, async (visit, _request, reply) => form(visit, reply, '', []));

  door.post('/new-agent', manage, async (visit, sent, _request, reply) => {
    const { organization, actor } = visit;
    const name = sent.get('name')?.trim() ?? '';
    try {
      const proxy = await ports.proxy();
      const made = await perform(agentCreate, { organization, name }, actor, ports);
      const data = {
        heading: `Agent ${made.name}`,
        next: 'Give this key to the agent program in your network. Then bind servers to the agent, as they are created or in their settings.',
        secret: {
          label: 'Agent key',
          secret: made.key,
          beside: [],
          configurations: [],
          steps: agentSteps(base, proxy),
          proxy,
          keep: 'With the agent program, or in a password manager.',
          done: `${agentPath(organization, made.name)}?done=made`,
        },
      };
      const agents = { text: 'Agents', href: `${dashboardPath(organization)}/agents` };
      const crumbs = [agents, { text: made.name }];
      return sendDashboardPage(reply, visit, shownOncePage, data, { crumbs });
    } catch (refusal) {
      return form(visit, reply, name, refusedForm(refusal, labels, 'name'));
    }
  });
}
