import { keyList } from '#administration/key-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyCells, keyColumns } from './key-rows.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { sendListPage } from './send-list-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath, serverTabs } from './server-tabs.ts';

const look = { permission: 'key.read', section: 'servers' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'In force' },
    { value: 'expired', text: 'Expired' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [...keyColumns, { text: 'Actions' }],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const notices: Readonly<Record<string, string>> = {
  made: 'The API key is in force.',
  revoked: 'The API key is revoked and opens nothing any more.',
};

/** `/servers/{server}/keys`. */
export function keyListRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers/:server/keys', look, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { organization, actor } = visit;
    const home = serverPath(organization, server.name);
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization, server: server.name };
    const { items, total } = await perform(keyList, wanted, actor, ports);
    const generate = { text: 'Generate API key', href: `${home}/new-key` };
    const action = visit.may('key.manage') ? generate : undefined;
    const rows = items.map((key) => {
      const of = `${key.name} ${key.hint}`;
      const path = `${home}/keys/${key.id}`;
      const actions = [
        { text: 'Rotate', href: `${path}/rotate`, of },
        { text: 'Revoke', href: `${path}/revoke`, of, danger: true },
      ];
      const isActive = key.status === 'active';
      const cell = { kind: 'actions', actions: isActive && action ? actions : [] } as const;
      return { id: key.id, isOver: !isActive, cells: [...keyCells(key, path), cell] };
    });
    const list = {
      heading: server.title || server.name,
      caption: `API keys of ${server.name}`,
      action,
      tabs: serverTabs(visit, server.name, 'keys'),
      notice: notices[queryText(request, 'done') ?? ''],
      query,
      rows,
      total,
      none: 'No API keys yet. A key opens this server for an assistant or a script that can send one header.',
      noneLikeThat: 'No API key is like that.',
      now: clock.now(),
    };
    const crumbs = serverCrumbs(organization, server.name, { text: 'API keys' });
    const live = livePath(organization, server.name);
    return sendListPage(reply, visit, list, { crumbs, live });
  });
}
