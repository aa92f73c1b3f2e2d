import { perform } from '#administration/perform';
import { serverList } from '#administration/server-operations';
import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { disabledBadges } from './disabled-badges.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { sendListPage } from './send-list-page.ts';
import { serverPath } from './server-tabs.ts';
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

/** `/servers`. */
export function serverListRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
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
}
