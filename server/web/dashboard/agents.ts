import { agentCreate, agentList, agentRead, agentRevoke } from '#admin/agents';
import type { EpochSeconds } from '#model/clock';
import { downloadPath, type ProxyReference } from '#download/proxy-reference';
import type { AgentPresence } from '#upstreams/tunnel/connected-agent';
import { html, type Html } from '#web/html';
import { type AgentStep, agentStepList, agentSteps, proxySource } from '#web/instructions';
import { dashboardPath, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { queryChoice, queryText } from '#web/page-request';
import { dataTable, type Fact, factList, type Table, timeCell } from '#web/tables';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { agentBadge, healthCell, healthOfAll } from './health.ts';
import { agentKeyDescriptions, keyCells, keyColumns } from './keys.ts';
import { activeOrRevoked, listQuery, renewedPart, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import { counted, questionRoutes, type Question } from './questions.ts';
import { serverPath } from './server-tabs.ts';

/** The on-premise agents of an organization. */
export function agentRoutes(guard: DashboardGuard): void {
  guard.get('/agents', toRead, showAgents);
  formRoutes(guard, '/new-agent', toManage, newAgent);
  guard.get('/agents/:agent', toRead, showAgent);
  questionRoutes(guard, '/agents/:agent/revoke', toManage, revocation);
}

const toRead = 'agent.read';
const toManage = 'agent.manage';
const shape = {
  states: activeOrRevoked,
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Status' },
    { text: 'Key' },
    { text: 'Last connected', sort: 'last_used_at' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Actions' },
  ],
  usual: { sort: 'name', order: 'asc' },
} as const;
const listNotices: Readonly<Record<string, string>> = {
  revoked: 'Agent and all its keys revoked.',
};

const showAgents: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const query = listQuery(request, shape);
  const { items, total } = await visit.perform(agentList, query.input);
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
    const status = agentBadge(agent, ports.presenceOf(agent.id));
    return {
      id: agent.id,
      isOver,
      cells: [
        { kind: 'name', text: agent.name, href: path },
        { kind: 'status', status },
        { kind: 'hint', text: agent.keyHint ?? 'None' },
        timeCell(agent.lastUsedAt, 'Never'),
        timeCell(agent.createdAt),
        { kind: 'actions', actions: action && !isOver ? actions : [] },
      ] as const,
    };
  });
  const list = {
    heading: 'Agents',
    lead: 'An agent runs in your private network and connects MCP servers there to Latchkey, without an open port.',
    caption: 'Agents',
    action,
    notice: queryChoice(request, 'done', listNotices),
    query,
    rows,
    total,
    none: 'No agents yet. Create one to reach MCP servers in a private network.',
    noneLikeThat: 'No agents match.',
    now: ports.clock.now(),
  };
  const at = { crumbs: [{ text: 'Agents' }], live: livePath(organization) };
  return sendListPage(reply, visit, list, at);
};

const newAgent: FormRoutes = {
  form: formFor(agentCreate),
  conflict: 'name',
  page({ organization }, request, { base }) {
    const { server } = intendedOf(request);
    const agents = `${dashboardPath(organization)}/agents`;
    return {
      heading: 'Create agent',
      lead: 'An agent runs in your private network and connects to Latchkey from there. You don’t need to open a port. The next page shows its key once.',
      refused: 'Not created yet',
      verb: 'Create agent',
      cancel: agents,
      crumbs: [{ text: 'Agents', href: agents }, { text: 'Create agent' }],
      ...(server && { record: { name: server } }),
      next: whatComesNext(base),
    };
  },
  async act(visit, entered, request, reply, { base, ports }) {
    const { organization } = visit;
    const proxy = await ports.proxy();
    const made = await visit.perform(agentCreate, entered);
    const { server, url } = intendedOf(request);
    const [servers, urls] = server ? [[server], url ? { [server]: url } : {}] : [[], {}];
    const query = new URLSearchParams({ done: 'made', ...(server && { server }) });
    const data = {
      heading: `Agent ${made.name}`,
      next: 'Enter this key where the agent runs, as described below. Then create a server that uses this agent.',
      secret: {
        label: 'Agent key',
        secret: made.key,
        steps: agentSteps(base, proxy, servers, urls),
        proxy,
        keep: 'Store it with the agent or in a password manager.',
        done: `${agentPath(organization, made.name)}?${query.toString()}`,
      },
    };
    const agents = { text: 'Agents', href: `${dashboardPath(organization)}/agents` };
    const crumbs = [agents, { text: made.name }];
    return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
  },
};

const notices: Readonly<Record<string, string>> = {
  made: 'Agent created. Start it as described below.',
  'key-revoked': 'Key revoked.',
};

const showAgent: PageHandler = async (visit, request, reply, { base, ports }) => {
  const { organization } = visit;
  const agent = await agentOf(visit, request);
  const path = agentPath(organization, agent.name);
  const isOver = agent.revokedAt !== null;
  const may = visit.may('agent.manage') && !isOver;
  const active = agent.keys.filter(({ status }) => status === 'active').length;
  const now = ports.clock.now();
  const describe = await agentKeyDescriptions(agent.keys, now, ports.db);
  const presence = ports.presenceOf(agent.id);
  const health = await healthOfAll(agent.servers, ports);
  const proxy = await ports.proxy();
  const bound = agent.servers.map(({ name }) => name);
  const data = {
    heading: agent.name,
    notice: queryChoice(request, 'done', notices),
    facts: [
      { label: 'Status', cell: { kind: 'status', status: agentBadge(agent, presence) } as const },
      ...(isOver ? [] : agentFacts(presence, bound)),
      {
        label: 'Last connected',
        cell: timeCell(agent.lastUsedAt, 'Never'),
      },
      { label: 'Created', cell: timeCell(agent.createdAt) },
    ],
    keys: {
      caption: `Keys of ${agent.name}`,
      columns: [...keyColumns.map(({ text }) => text), 'Actions'],
      rows: agent.keys.map((key) => {
        const isActive = key.status === 'active';
        const href = `${path}/keys/${key.id}/revoke`;
        const revoke = { text: 'Revoke', href, of: key.hint, danger: true };
        // The last key can only be revoked together with the agent.
        const actions = may && isActive && active > 1 ? [revoke] : [];
        const cell = { kind: 'actions', actions } as const;
        return { id: key.id, isOver: !isActive, cells: [...keyCells(key, describe(key)), cell] };
      }),
      empty: { text: 'This agent has no key.' },
      now,
    },
    servers: {
      caption: `Servers of ${agent.name}`,
      columns: ['Name', 'Status'],
      rows: agent.servers.map((server) => ({
        id: server.id,
        cells: [
          { kind: 'title', of: server, href: serverPath(organization, server.name) },
          healthCell(health.get(server.id), visit.may('server.manage')),
        ] as const,
      })),
      empty: {
        text: 'No servers use this agent yet.',
        action:
          !isOver && visit.may('server.manage')
            ? { text: 'Create server', href: newServerPath(organization, agent.name, request) }
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
};

const revocation: Question = {
  async ask(visit, request) {
    const { name, servers, keys } = await agentOf(visit, request);
    const path = agentPath(visit.organization, name);
    const active = keys.filter(({ status }) => status === 'active').length;
    return {
      heading: `Revoke agent ${name}?`,
      consequences: [
        `${counted(active, 'key stops', 'keys stop')} working immediately.`,
        servers.length === 0
          ? 'No servers use this agent.'
          : `${counted(servers.length, 'server uses', 'servers use')} this agent and cannot answer calls until you choose another upstream: ${servers.map((server) => server.name).join(', ')}.`,
        'This cannot be undone.',
      ],
      verb: 'Revoke agent',
      cancel: path,
      crumbs: [
        { text: 'Agents', href: `${dashboardPath(visit.organization)}/agents` },
        { text: name, href: path },
        { text: 'Revoke' },
      ],
    };
  },
  async act(visit, request) {
    const { organization } = visit;
    const agent = request.params['agent'] ?? '';
    await visit.perform(agentRevoke, { agent });
    return `${dashboardPath(organization)}/agents?done=revoked`;
  },
};

/** The data of an agent's page. `here` is its path; `manage` has the paths of the forms that change it, for people who may use them. */
interface AgentPageData {
  readonly heading: string;
  readonly notice: string | undefined;
  readonly facts: readonly Fact[];
  readonly keys: Table;
  readonly servers: Table;
  /** How to start the agent, for people who manage it, while it is offline. */
  readonly steps: readonly AgentStep[] | undefined;
  /** The source of the proxy that the steps run. */
  readonly proxy: ProxyReference;
  readonly manage: { readonly rotate: string; readonly revoke: string } | undefined;
  readonly here: string;
  readonly now: EpochSeconds;
}

/** An on-premise agent: when it was last connected, its keys, and the servers that it serves. */
function agentPage(data: AgentPageData, frame: Frame): Html {
  const { heading, facts, keys, servers, steps, proxy, manage, here, now } = data;
  const action = manage && { text: 'Rotate key', href: manage.rotate };
  const live = html`${factList(facts, now)}
<h2>Keys</h2>
${dataTable(keys)}
<h2>Servers</h2>
${dataTable(servers)}
${
  steps &&
  html`<section class="section" aria-labelledby="steps-heading">
<h2 id="steps-heading">Start the agent</h2>
${agentStepList(steps)}
${proxySource(proxy)}
</section>`
}`;
  const content = html`${pageHeading({ heading, action })}
${statusNotice(data.notice)}
${renewedPart(here, live)}
${manage && html`<div class="actions"><a class="button danger" href="${manage.revoke}" data-question>Revoke agent</a></div>`}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

/** The current state of an agent. `bound` are the servers that are bound to it in the dashboard. */
export function agentFacts(presence: AgentPresence, bound: readonly string[]): readonly Fact[] {
  const { isOnline, tunnels, versions, servers, lastError } = presence;
  const more = servers.map(({ name }) => name).filter((name) => !bound.includes(name));
  return [
    ...(tunnels > 1 ? [{ label: 'Connections', text: `${tunnels}` }] : []),
    ...(isOnline ? [{ label: 'Version', text: versions.join(', ') }] : []),
    ...(isOnline ? [{ label: 'Calls in progress', text: callWords(presence) }] : []),
    ...(more.length > 0 ? [{ label: 'Configured but not used', text: more.join(', ') }] : []),
    {
      label: 'Calls since this server started',
      text:
        presence.failed === 0
          ? `${presence.calls}`
          : `${presence.calls}, ${presence.failed} failed`,
    },
    ...(lastError
      ? [
          { label: 'Last error', text: lastError.message },
          { label: 'Last error at', cell: timeCell(lastError.at) },
        ]
      : []),
  ];
}

function callWords({ activeCalls, waiting, listening }: AgentPresence): string {
  const parts = [`${activeCalls}`];
  if (waiting > 0) parts.push(`${waiting} waiting`);
  if (listening > 0) parts.push(counted(listening, 'open stream', 'open streams'));
  return parts.join(', ');
}

/** The agent that the path names. @throws {AdministrationRefusal} `not_found` */
export function agentOf({ perform }: DashboardVisit, { params }: DashboardRequest) {
  return perform(agentRead, { agent: params['agent'] ?? '' });
}

/** The path of an agent's page. */
export function agentPath(organization: string, agent: string): string {
  return `${dashboardPath(organization)}/agents/${agent}`;
}

/** The server that an agent is created for, in links from the form of a new server. Invalid values are ignored. */
function intendedOf(request: DashboardRequest): {
  readonly server?: string;
  readonly url?: string;
} {
  const { name: slug } = agentCreate.input.shape;
  const server = slug.safeParse(queryText(request, 'server')).data;
  const url = queryText(request, 'url');
  return { ...(server && { server }), ...(url && URL.canParse(url) && { url }) };
}

/** The steps after the form, so that people can prepare them before they create an agent. */
function whatComesNext(base: string): Html {
  return html`<section class="section" aria-labelledby="next-heading">
<h2 id="next-heading">What comes next</h2>
<ol class="steps">
<li>
<h3>Choose a computer in that network</h3>
<p class="help">One that runs all the time, reaches the MCP servers, and can open HTTPS connections to ${new URL(base).host}. It needs Node.js 22.19 or newer, or an executable of <a href="${downloadPath}">the proxy</a>.</p>
</li>
<li>
<h3>Start the agent there</h3>
<p class="help">The next page has the commands. It shows the key once.</p>
</li>
<li>
<h3>Create a server for each MCP server</h3>
<p class="help">Choose “On-premise agent” as its upstream, and the name that agent.json has for it.</p>
</li>
</ol>
</section>`;
}

/** The path of the form for a new server that uses this agent. */
function newServerPath(organization: string, agent: string, request: DashboardRequest): string {
  const { server: name } = intendedOf(request);
  const query = new URLSearchParams({ kind: 'agent', agent, ...(name && { name }) });
  return `${dashboardPath(organization)}/new-server?${query.toString()}`;
}
