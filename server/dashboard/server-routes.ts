import { agentList } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import {
  ownConnectionRead,
  type ShownOwnConnection,
} from '#administration/upstream-connection-operations';
import { serverCreate, serverList, serverRead } from '#administration/server-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { assistantConfigurations } from '#pages/assistant-configurations';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import type { Badge } from '#pages/table';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { sendListPage } from './send-list-page.ts';
import { serverFormPage, type TypedServer } from './server-form-page.ts';
import { serverPage } from './server-page.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { emptyServer, serverErrors, serverInput, typedServer } from './typed-server.ts';
import { upstreamWords } from './upstream-words.ts';

const needs = { permission: 'server.read', section: 'servers' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'enabled', text: 'In use' },
    { value: 'disabled', text: 'Disabled' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Title' },
    { text: 'Calls go to' },
    { text: 'Created', sort: 'created_at' },
  ],
  usual: { sort: 'name', order: 'asc' },
} as const;

/** `/servers`, `/new-server` and `/servers/{server}`. */
export function serverRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers', needs, async (visit, request, reply) => {
    const { organization, actor } = visit;
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization };
    const { items, total } = await perform(serverList, wanted, actor, ports);
    const create = { text: 'Create server', href: `${dashboardPath(organization)}/new-server` };
    const rows = items.map((server) => ({
      id: server.id,
      // It may serve again: the badge says enough, and its name goes on leading there.
      isOver: false,
      cells: [
        {
          kind: 'name',
          text: server.name,
          href: serverPath(organization, server.name),
          badges: disabledBadges(server),
        },
        { kind: 'text', text: server.title },
        { kind: 'text', text: upstreamWords(server) },
        { kind: 'time', at: server.createdAt, otherwise: '' },
      ] as const,
    }));
    const list = {
      heading: 'Servers',
      lead: 'Every server is one MCP endpoint, with OAuth clients and API keys of its own.',
      caption: 'Servers',
      action: visit.may('server.manage') ? create : undefined,
      tabs: undefined,
      notice: queryText(request, 'done') === 'deleted' ? 'The server is deleted.' : undefined,
      query,
      rows,
      total,
      none: 'No servers yet. A server is one MCP endpoint that assistants call.',
      noneLikeThat: 'No server is like that.',
      now: clock.now(),
    };
    const at = { crumbs: [{ text: 'Servers' }], live: livePath(organization) };
    return sendListPage(reply, visit, list, at);
  });

  const manage = { permission: 'server.manage', section: 'servers' } as const;
  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    typed: TypedServer,
    errors: FieldError[],
  ) => {
    const { organization } = visit;
    const home = dashboardPath(organization);
    const data = {
      isNew: true,
      heading: 'Create server',
      tabs: undefined,
      notice: undefined,
      action: `${home}/new-server`,
      cancel: `${home}/servers`,
      typed,
      agents: await activeAgents(visit, ports),
      newAgent: `${dashboardPath(organization)}/new-agent`,
      errors,
      isDisabled: false,
      dangers: [],
    };
    const crumbs = [{ text: 'Servers', href: `${home}/servers` }, { text: 'Create server' }];
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
  };

  door.get('/new-server', manage, async (visit, _request, reply) =>
    form(reply, visit, emptyServer(), []),
  );

  door.post('/new-server', manage, async (visit, sent, _request, reply) => {
    const typed = typedServer(sent);
    const { organization, actor } = visit;
    try {
      const input = { organization, ...serverInput(typed).made };
      const { name } = await perform(serverCreate, input, actor, ports);
      const next = `${serverPath(organization, name)}?done=created`;
      return seeOther(reply, next);
    } catch (refusal) {
      return form(reply, visit, typed, serverErrors(refusal, typed, 'name'));
    }
  });

  door.get('/servers/:server', needs, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server: name = '' } = request.params;
    const server = await perform(serverRead, { organization, server: name }, actor, ports);
    const own = await perform(ownConnectionRead, { organization, server: name }, actor, ports);
    const home = serverPath(organization, name);
    const endpoint = base + server.endpoint;
    const credential = { kind: 'person' } as const;
    const data = {
      heading: server.title || server.name,
      badges: disabledBadges(server),
      description: server.description,
      tabs: serverTabs(visit, name, 'connect'),
      notice: notices[queryText(request, 'done') ?? ''],
      isDisabled: server.disabledAt !== null,
      settings: may('server.manage') ? `${home}/settings` : undefined,
      endpoint,
      facts: [
        { label: 'Calls go to', text: upstreamWords(server) },
        ...(own.isNeeded ? [ownAccountFact(own, `${home}/account`)] : []),
        { label: 'OAuth clients in force', text: String(server.activeClients) },
        { label: 'API keys in force', text: String(server.activeKeys) },
        { label: 'People’s consents in force', text: String(server.activeGrants) },
        { label: 'Hidden tools', text: server.hiddenTools.join(', ') || 'none' },
        { label: 'Created', cell: { kind: 'time', at: server.createdAt, otherwise: '' } as const },
      ],
      configurations: assistantConfigurations({ name, url: endpoint, credential }),
      makes: [
        ...(may('client.manage')
          ? [
              {
                text: 'Create OAuth client',
                help: 'An OAuth client: for an application that signs people in, or acts for itself.',
                href: `${home}/new-client`,
              },
            ]
          : []),
        ...(may('key.manage')
          ? [
              {
                text: 'Generate API key',
                help: 'An API key: for an assistant or a script that can send one header.',
                href: `${home}/new-key`,
              },
            ]
          : []),
      ],
      now: clock.now(),
    };
    return sendDashboardPage(reply, visit, serverPage, data, { crumbs: [{ text: name }] });
  });
}

const notices: Readonly<Record<string, string>> = {
  created: 'The server is created. Connect an assistant to it below.',
  enabled: 'The server serves again.',
};

/** What a list and a page say of a server that serves nobody. */
export function disabledBadges({ disabledAt }: { disabledAt: number | null }): readonly Badge[] {
  return disabledAt === null ? [] : [{ text: 'disabled', tone: 'care' }];
}

/** The names of the agents that a server can be bound to. */
export async function activeAgents(
  { organization, actor }: DashboardVisit,
  ports: DashboardOptions['ports'],
): Promise<readonly string[]> {
  const wanted = { organization, status: 'active', sort: 'name', limit: 200 };
  return (await perform(agentList, wanted, actor, ports)).items.map(({ name }) => name);
}

/** Whether the person's own account is connected, and where to see to it. */
function ownAccountFact({ state }: ShownOwnConnection, href: string) {
  const text = state === 'connected' ? 'connected' : 'connect it';
  return { label: 'Your account there', cell: { kind: 'name', text, href, badges: [] } as const };
}
