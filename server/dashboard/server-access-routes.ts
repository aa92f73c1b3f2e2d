import { groupList, serverGroupsRead, serverGroupsSet } from '#administration/group-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import type { Page } from '#pages/page';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverPath, serverTabs } from './server-tabs.ts';

interface AccessPageData {
  readonly name: string;
  readonly tabs: object;
  readonly notice: string | undefined;
  readonly action: string;
  readonly groups: readonly object[];
  readonly isOpen: boolean;
  readonly mayManage: boolean;
}

const accessPage: Page<AccessPageData> = {
  title: ({ name }) => `Access of ${name}`,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.name, badges: [], action: undefined,
  lead: it.isOpen ? 'Every member of the organization may use this server.' : 'Only the chosen groups may use this server, owners included.' }) %>
<%~ include('@subnav', it.tabs) %>
<%~ include('@notice', { text: it.notice }) %>
<% if (it.groups.length === 0) { %><div class="empty"><p>There are no groups yet. Make one under Groups to keep this server to it.</p></div>
<% } else { %>
<form method="post" action="<%= it.action %>">
<%~ include('@guard', it.frame) %>
<%~ include('@checks', { name: 'group', legend: 'Groups that may use it', options: it.groups, error: '', help: 'None chosen opens it to every member. Whoever is outside loses it at once; keys and clients without a person are not asked.' }) %>
<% if (it.mayManage) { %><div class="actions"><button class="primary">Save</button></div><% } %>
</form>
<% } %>`,
};

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
    return sendDashboardPage(reply, visit, accessPage, data, { crumbs });
  });

  door.post('/servers/:server/access', manages, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const groupIds = [...sent.keys()]
      .filter((name) => name.startsWith('group.'))
      .map((name) => name.slice('group.'.length));
    await perform(serverGroupsSet, { organization, server, groupIds }, actor, ports);
    const next = `${serverPath(organization, server)}/access?done=saved`;
    return seeOther(reply, next);
  });
}
