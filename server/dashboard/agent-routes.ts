import type { FastifyReply } from 'fastify';

import { agentCreate, agentList, agentRead, agentRevoke } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import { agentFacts, offerWords } from './agent-facts.ts';
import { agentFormPage } from './agent-form-page.ts';
import { agentPage } from './agent-page.ts';
import { counted } from './counted.ts';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions, DashboardPorts } from './dashboard-ports.ts';
import { keyCells, keyColumns } from './key-rows.ts';
import { listPage } from './list-page.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverPath } from './server-tabs.ts';
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
  made: 'The agent may connect with its key.',
  revoked: 'The agent is revoked, and every key of it.',
  'key-revoked': 'The key is revoked and connects nothing any more.',
};

/** The path of an agent's page. */
export function agentPath(organization: string, agent: string): string {
  return `${dashboardPath(organization)}/agents/${agent}`;
}

/** `/agents`, `/new-agent`, and one agent. */
export function agentRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/agents', look, async (visit, request, reply) => {
    const { organization, actor } = visit;
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization };
    const { items, total } = await perform(agentList, wanted, actor, ports);
    const create = { text: 'Create agent', href: `${dashboardPath(organization)}/new-agent` };
    const action = visit.may('agent.manage') ? create : undefined;
    const isWhole = query.input['text'] === undefined && query.input['status'] === undefined;
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
    const text = isWhole
      ? 'No agents yet. An agent connects MCP servers inside a private network to this server.'
      : 'No agent is like that.';
    const data = {
      heading: 'Agents',
      lead: 'Programs inside your private networks that dial out to this server.',
      badges: [],
      action,
      tabs: undefined,
      notice: notices[queryText(request, 'done') ?? ''],
      list: query.frame(total),
      isSearchable: !isWhole || items.length > 0,
      table: {
        caption: 'Agents',
        columns: query.columns,
        rows,
        empty: { text, action: isWhole ? action : undefined },
        now: clock.now(),
      },
      here: request.url,
    };
    const at = { crumbs: [{ text: 'Agents' }], live: livePath(organization) };
    return sendDashboardPage(reply, visit, listPage, data, at);
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
      const made = await perform(agentCreate, { organization, name }, actor, ports);
      const data = {
        heading: `Agent ${made.name}`,
        next: 'Give this key to the agent program in your network. Then bind servers to the agent, in their settings.',
        secret: {
          label: 'Agent key',
          secret: made.key,
          beside: [],
          configurations: [],
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

  door.get('/agents/:agent', look, async (visit, request, reply) => {
    const { organization } = visit;
    const agent = await agentOf(visit, request, ports);
    const path = agentPath(organization, agent.name);
    const isOver = agent.revokedAt !== null;
    const may = visit.may('agent.manage') && !isOver;
    const active = agent.keys.filter(({ status }) => status === 'active').length;
    const now = clock.now();
    const presence = ports.presenceOf(agent.id);
    const bound = agent.servers.map(({ name }) => name);
    const data = {
      heading: agent.name,
      badges: isOver ? [{ text: 'revoked', tone: 'plain' } as const] : [],
      notice: notices[queryText(request, 'done') ?? ''],
      facts: [
        ...(isOver ? [] : agentFacts(presence, bound)),
        {
          label: 'Last connected',
          cell: { kind: 'time', at: agent.lastUsedAt ?? undefined, otherwise: 'never' } as const,
        },
        { label: 'Created', cell: { kind: 'time', at: agent.createdAt, otherwise: '' } as const },
      ],
      keys: {
        caption: `Keys of ${agent.name}`,
        columns: [...keyColumns, { text: 'Actions' }].map(({ text }) => ({ text })),
        rows: agent.keys.map((key) => {
          const isActive = key.status === 'active';
          const href = `${path}/keys/${key.id}/revoke`;
          const revoke = { text: 'Revoke', href, of: key.hint, danger: true };
          // The last one goes with the agent itself.
          const actions = may && isActive && active > 1 ? [revoke] : [];
          const cell = { kind: 'actions', actions } as const;
          return { id: key.id, isOver: !isActive, cells: [...keyCells(key), cell] };
        }),
        empty: { text: 'It has no key.' },
        now,
      },
      servers: {
        caption: `Servers of ${agent.name}`,
        columns: [{ text: 'Name' }, { text: 'Title' }, { text: 'At the agent' }],
        rows: agent.servers.map((server) => ({
          id: server.id,
          cells: [
            { kind: 'name', text: server.name, href: serverPath(organization, server.name) },
            { kind: 'text', text: server.title },
            { kind: 'text', text: offerWords(presence, server.name) },
          ] as const,
        })),
        empty: { text: 'None yet. A server is bound to an agent in its settings.' },
        now,
      },
      manage: may ? { rotate: `${path}/rotate`, revoke: `${path}/revoke` } : undefined,
      here: request.url,
      now,
    };
    const agents = { text: 'Agents', href: `${dashboardPath(organization)}/agents` };
    const at = { crumbs: [agents, { text: agent.name }], live: livePath(organization) };
    return sendDashboardPage(reply, visit, agentPage, data, at);
  });

  questionRoutes(door, '/agents/:agent/revoke', manage, {
    async ask(visit, request) {
      const { name, servers, keys } = await agentOf(visit, request, ports);
      const path = agentPath(visit.organization, name);
      const active = keys.filter(({ status }) => status === 'active').length;
      return {
        heading: `Revoke the agent ${name}?`,
        consequences: [
          `${counted(active, 'key of it connects', 'keys of it connect')} no more, from this moment on.`,
          servers.length === 0
            ? 'No server goes through it.'
            : `${counted(servers.length, 'server goes', 'servers go')} through it and answer nobody until bound elsewhere: ${servers.map((server) => server.name).join(', ')}.`,
          'There is no way back.',
        ],
        verb: 'Revoke the agent',
        cancel: path,
        crumbs: [
          { text: 'Agents', href: `${dashboardPath(visit.organization)}/agents` },
          { text: name, href: path },
          { text: 'Revoke' },
        ],
      };
    },
    async act(visit, request) {
      const { organization, actor } = visit;
      const agent = request.params['agent'] ?? '';
      await perform(agentRevoke, { organization, agent }, actor, ports);
      return `${dashboardPath(organization)}/agents?done=revoked`;
    },
  });
}

/** The agent that the path names. @throws {AdministrationRefusal} `not_found` */
export function agentOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  return perform(agentRead, { organization, agent: params['agent'] ?? '' }, actor, ports);
}
