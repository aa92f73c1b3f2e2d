import { agentRevoke } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { agentSteps } from '#pages/agent-steps';
import { dashboardPath } from '#pages/dashboard-frame';
import { agentFacts, offerWords } from './agent-facts.ts';
import { agentOf } from './agent-of.ts';
import { agentPage } from './agent-page.ts';
import { agentPath } from './agent-path.ts';
import { counted } from './counted.ts';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyCells, keyColumns } from './key-rows.ts';
import { livePath } from './live-routes.ts';
import { questionRoutes } from './question-routes.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverPath } from './server-tabs.ts';

const look = { permission: 'agent.read', section: 'agents' } as const;
const manage = { permission: 'agent.manage', section: 'agents' } as const;
const notices: Readonly<Record<string, string>> = {
  made: 'The agent may connect with its key. How it comes to run stands below.',
  'key-revoked': 'The key is revoked and connects nothing any more.',
};

/** One agent at `/agents/{agent}`, and revoking it. */
export function agentRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/agents/:agent', look, async (visit, request, reply) => {
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
