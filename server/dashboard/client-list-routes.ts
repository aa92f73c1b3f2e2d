import { clientList } from '#administration/client-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { sendListPage } from './send-list-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath, serverTabs } from './server-tabs.ts';

const look = { permission: 'client.read', section: 'servers' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'In force' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Client id' },
    { text: 'Last used', sort: 'last_used_at' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Actions' },
  ],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const notices: Readonly<Record<string, string>> = {
  revoked: 'The OAuth client is revoked, and every token that it had.',
};

/** `/servers/{server}/clients`. */
export function clientListRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers/:server/clients', look, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { organization, actor } = visit;
    const home = serverPath(organization, server.name);
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization, server: server.name };
    const { items, total } = await perform(clientList, wanted, actor, ports);
    const create = { text: 'Create OAuth client', href: `${home}/new-client` };
    const action = visit.may('client.manage') ? create : undefined;
    const rows = items.map((client) => {
      const path = `${home}/clients/${client.clientId}`;
      const isOver = client.revokedAt !== null;
      const of = client.name;
      const actions = [
        ...(client.authentication === 'secret'
          ? [{ text: 'Rotate', href: `${path}/rotate`, of }]
          : []),
        { text: 'Revoke', href: `${path}/revoke`, of, danger: true },
      ];
      const badges = isOver ? [{ text: 'revoked', tone: 'plain' } as const] : [];
      return {
        id: client.clientId,
        isOver,
        cells: [
          { kind: 'name', text: client.name, href: path, badges },
          { kind: 'id', text: client.clientId },
          { kind: 'time', at: client.lastUsedAt ?? undefined, otherwise: 'never' },
          { kind: 'time', at: client.createdAt, otherwise: '' },
          { kind: 'actions', actions: action && !isOver ? actions : [] },
        ] as const,
      };
    });
    const list = {
      heading: server.title || server.name,
      caption: `OAuth clients of ${server.name}`,
      action,
      tabs: serverTabs(visit, server.name, 'clients'),
      notice: notices[queryText(request, 'done') ?? ''],
      query,
      rows,
      total,
      none: 'No OAuth clients yet. An application needs one to sign people in here, or to act for itself.',
      noneLikeThat: 'No OAuth client is like that.',
      now: clock.now(),
    };
    const crumbs = serverCrumbs(organization, server.name, { text: 'OAuth clients' });
    const live = livePath(organization, server.name);
    return sendListPage(reply, visit, list, { crumbs, live });
  });
}
