import { groupList } from '#administration/group-operations';
import { perform } from '#administration/perform';
import { serverGroupsRead, serverGroupsSet } from '#administration/server-group-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { checkedValues } from './checked-values.ts';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverAccessPage } from './server-access-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverPath, serverTabs } from './server-tabs.ts';

/** `/servers/{server}/access`: the groups that a server is kept to. */
export function serverAccessRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const reads = { permission: 'server.read', section: 'servers' } as const;
  const manages = { permission: 'server.manage', section: 'servers' } as const;

  door.get('/servers/:server/access', reads, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server = '' } = request.params;
    const rule = await perform(serverGroupsRead, { organization, server }, actor, ports);
    const { items } = await perform(groupList, { organization }, actor, ports);
    const data = {
      name: server,
      tabs: serverTabs(visit, server, 'access'),
      notice: queryText(request, 'done') === 'saved' ? 'Saved. It counts now.' : undefined,
      action: `${serverPath(organization, server)}/access`,
      groups: items.map(({ id, name, members }) => ({
        value: id,
        text: name,
        help: members === 1 ? '1 person' : `${members} people`,
        risk: '',
        isChosen: rule.groups.some((group) => group.id === id),
      })),
      isOpen: rule.groups.length === 0,
      mayManage: may('server.manage'),
    };
    const crumbs = serverCrumbs(organization, server, { text: 'Access' });
    return sendDashboardPage(reply, visit, serverAccessPage, data, { crumbs });
  });

  door.post('/servers/:server/access', manages, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const groupIds = checkedValues(sent, 'group');
    await perform(serverGroupsSet, { organization, server, groupIds }, actor, ports);
    const next = `${serverPath(organization, server)}/access?done=saved`;
    return seeOther(reply, next);
  });
}
