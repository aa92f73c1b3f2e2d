import { agentCreate, agentList, agentRead, agentRevoke } from '#admin/agents';
import { perform } from '#admin/operation';
import type { EpochSeconds } from '#clock/clock';
import type { ProxyReference } from '#download/proxy-reference';
import type { AgentPresence } from '#upstreams/tunnel/connected-agent';
import { html, type Html } from '#web/html';
import { type AgentStep, agentStepList, agentSteps, proxySource } from '#web/instructions';
import {
  type Badge,
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
} from '#web/layout';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { queryText } from '#web/page-request';
import { dataTable, type Fact, factList, type Table } from '#web/tables';
import { formRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import { keyCells, keyColumns } from './keys.ts';
import { listQuery, renewedPart, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { counted, questionRoutes } from './questions.ts';
import { serverPath } from './servers.ts';

/** The on-premise agents of an organization. */
export function agentRoutes(guard: DashboardGuard, options: DashboardOptions): void {
  listRoutes(guard, options);
  pageRoutes(guard, options);
}

const toRead = { permission: 'agent.read', section: 'agents' } as const;
const toManage = { permission: 'agent.manage', section: 'agents' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'Active' },
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
const listNotices: Readonly<Record<string, string>> = {
  revoked: 'The agent is revoked, and every key of it.',
};

/** `/agents` and `/new-agent`. */
function listRoutes(guard: DashboardGuard, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  guard.get('/agents', toRead, async (visit, request, reply) => {
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
      notice: listNotices[queryText(request, 'done') ?? ''],
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

  formRoutes(guard, '/new-agent', toManage, {
    form: formFor(agentCreate),
    conflict: 'name',
    page({ organization }) {
      const agents = `${dashboardPath(organization)}/agents`;
      return {
        heading: 'Create agent',
        lead: 'An agent runs inside your private network and dials out to this server; nothing there needs an open port. The next page shows its key once.',
        refused: 'Not created yet',
        verb: 'Create agent',
        cancel: agents,
        crumbs: [{ text: 'Agents', href: agents }, { text: 'Create agent' }],
      };
    },
    async act(visit, entered, _request, reply) {
      const { organization, actor } = visit;
      const proxy = await ports.proxy();
      const made = await perform(agentCreate, { ...entered, organization }, actor, ports);
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
      return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
    },
  });
}

const notices: Readonly<Record<string, string>> = {
  made: 'The agent may connect with its key. How to start it is described below.',
  'key-revoked': 'The key is revoked and connects nothing any more.',
};

/** One agent at `/agents/{agent}`, and revoking it. */
function pageRoutes(guard: DashboardGuard, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  guard.get('/agents/:agent', toRead, async (visit, request, reply) => {
    const { organization } = visit;
    const agent = await agentOf(visit, request, ports);
    const path = agentPath(organization, agent.name);
    const isOver = agent.revokedAt !== null;
    const may = visit.may('agent.manage') && !isOver;
    const active = agent.keys.filter(({ status }) => status === 'active').length;
    const now = clock.now();
    const presence = ports.presenceOf(agent.id);
    const proxy = await ports.proxy();
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
          // The last key can only be revoked together with the agent.
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
        empty: {
          text: 'None yet. A server is bound to an agent as it is created, or in its settings.',
          action:
            !isOver && visit.may('server.manage')
              ? { text: 'Create server', href: `${dashboardPath(organization)}/new-server` }
              : undefined,
        },
        now,
      },
      steps: may && !presence.isOnline ? agentSteps(base, proxy, bound) : undefined,
      proxy,
      manage: may ? { rotate: `${path}/rotate`, revoke: `${path}/revoke` } : undefined,
      here: request.url,
      now,
    };
    const agents = { text: 'Agents', href: `${dashboardPath(organization)}/agents` };
    const at = { crumbs: [agents, { text: agent.name }], live: livePath(organization) };
    return sendDashboardPage(reply, visit, agentPage, data, at);
  });

  questionRoutes(guard, '/agents/:agent/revoke', toManage, {
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
            : `${counted(servers.length, 'server goes', 'servers go')} through it and cannot answer calls until bound elsewhere: ${servers.map((server) => server.name).join(', ')}.`,
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

/** The state of an agent; `here` is the path of the page, those in `manage` where it is changed, for people who may. */
interface AgentPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly notice: string | undefined;
  readonly facts: readonly Fact[];
  readonly keys: Table;
  readonly servers: Table;
  /** How to start it, shown to people who manage it while it is not running. */
  readonly steps: readonly AgentStep[] | undefined;
  /** The source of the proxy that the steps run. */
  readonly proxy: ProxyReference;
  readonly manage: { readonly rotate: string; readonly revoke: string } | undefined;
  readonly here: string;
  readonly now: EpochSeconds;
}

/** An on-premise agent: when it was last connected, its keys, and the servers that it serves. */
function agentPage(data: AgentPageData, frame: Frame): Html {
  const { heading, badges, facts, keys, servers, steps, proxy, manage, here, now } = data;
  const action = manage && { text: 'Rotate key', href: manage.rotate };
  const live = html`${factList(facts, now)}
<h2>Keys</h2>
${dataTable(keys)}
<h2>Servers that it serves</h2>
${dataTable(servers)}
${
  steps &&
  html`<section class="section" aria-labelledby="steps-heading">
<h2 id="steps-heading">Run it</h2>
${agentStepList(steps)}
${proxySource(proxy)}
</section>`
}`;
  const content = html`${pageHeading({ heading, badges, action })}
${statusNotice(data.notice)}
${renewedPart(here, live)}
${manage && html`<div class="actions"><a class="button danger" href="${manage.revoke}" data-question>Revoke the agent</a></div>`}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

/** Whether the agent is connected, in words. */
export function presenceWords({ isOnline, tunnels }: AgentPresence): string {
  if (!isOnline) return 'Offline';
  return tunnels === 1 ? 'Online' : `Online, by ${tunnels} connections`;
}

/** The current state of an agent. `bound` are the servers that are bound to it in the dashboard. */
export function agentFacts(presence: AgentPresence, bound: readonly string[]): readonly Fact[] {
  const { isOnline, versions, servers, lastError } = presence;
  const more = servers.map(({ name }) => name).filter((name) => !bound.includes(name));
  return [
    { label: 'Status', text: presenceWords(presence) },
    ...(isOnline ? [{ label: 'Version', text: versions.join(', ') }] : []),
    ...(isOnline ? [{ label: 'Calls under way', text: callWords(presence) }] : []),
    ...(more.length > 0 ? [{ label: 'Could also serve', text: more.join(', ') }] : []),
    {
      label: 'Calls since this server started',
      text:
        presence.failed === 0
          ? `${presence.calls}`
          : `${presence.calls}, ${presence.failed} failed`,
    },
    ...(lastError ? [{ label: 'Last error', text: lastError.message }] : []),
    ...(lastError
      ? [
          {
            label: 'Last error at',
            cell: { kind: 'time', at: lastError.at, otherwise: '' } as const,
          },
        ]
      : []),
  ];
}

/** Whether the agent offers a server that is bound to it. */
export function offerWords({ isOnline, servers }: AgentPresence, server: string): string {
  if (!isOnline) return 'the agent is offline';
  const offered = servers.find(({ name }) => name === server);
  return offered ? `served, ${offered.kind}` : 'not in the configuration of the agent';
}

function callWords({ activeCalls, waiting, listening }: AgentPresence): string {
  const parts = [`${activeCalls}`];
  if (waiting > 0) parts.push(`${waiting} waiting`);
  if (listening > 0) parts.push(counted(listening, 'stream listens', 'streams listen'));
  return parts.join(', ');
}

/** The agent that the path names. @throws {AdministrationRefusal} `not_found` */
export function agentOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  return perform(agentRead, { organization, agent: params['agent'] ?? '' }, actor, ports);
}

/** The path of an agent's page. */
export function agentPath(organization: string, agent: string): string {
  return `${dashboardPath(organization)}/agents/${agent}`;
}
