import { perform } from '#administration/perform';
import { serverUpdate } from '#administration/server-operations';
import { toolAccept, toolList } from '#administration/tool-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { changedLines } from './changed-lines.ts';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { toolsPage } from './tools-page.ts';

const notices: Readonly<Record<string, string>> = {
  accepted: 'Accepted. It counts now.',
  saved: 'Saved. It counts now.',
};

/** Comparing takes a while, and nobody reads more of it at once. */
const mostCompared = 20;

/** `/servers/{server}/tools`: what became of them since they were accepted, and what is to happen then. */
export function toolRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const reads = { permission: 'server.read', section: 'servers' } as const;
  const manages = { permission: 'server.manage', section: 'servers' } as const;

  door.get('/servers/:server/tools', reads, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server = '' } = request.params;
    const { items, changedTools } = await perform(toolList, { organization, server }, actor, ports);
    const now = ports.clock.now();
    const others = items.flatMap((tool) => (tool.changed ? [{ ...tool, ...tool.changed }] : []));
    const data = {
      name: server,
      tabs: serverTabs(visit, server, 'tools'),
      notice: notices[queryText(request, 'done') ?? ''],
      home: `${serverPath(organization, server)}/tools`,
      changed: others.slice(0, mostCompared).map(({ name, digest, changedAt, accepted, seen }) => {
        return { name, digest, changedAt, lines: changedLines(accepted, seen) };
      }),
      more: others.slice(mostCompared).length,
      table: {
        caption: 'Tools',
        columns: [{ text: 'Name' }, { text: 'Accepted' }],
        rows: items.map(({ name, acceptedAt, changed }) => ({
          id: name,
          cells: [
            {
              kind: 'name',
              text: name,
              badges: changed ? [changedBadge(changedTools)] : [],
            },
            { kind: 'time', at: acceptedAt, otherwise: '' },
          ] as const,
        })),
        empty: { text: 'No caller has listed its tools yet. They appear here once one does.' },
        now,
      },
      choices: [
        {
          value: 'flag',
          text: 'Show it here, and in the audit log',
          help: 'Callers go on using it.',
          isChosen: changedTools === 'flag',
        },
        {
          value: 'withhold',
          text: 'Close it besides, until somebody accepts it',
          help: 'Nobody sees or calls it meanwhile.',
          isChosen: changedTools === 'withhold',
        },
      ],
      mayManage: may('server.manage'),
      now,
    };
    const crumbs = serverCrumbs(organization, server, { text: 'Tools' });
    return sendDashboardPage(reply, visit, toolsPage, data, { crumbs });
  });

  door.post('/servers/:server/tools/accept', manages, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const tools = [{ name: sent.get('name') ?? '', digest: sent.get('digest') ?? '' }];
    await perform(toolAccept, { organization, server, tools }, actor, ports);
    const next = `${serverPath(organization, server)}/tools?done=accepted`;
    return seeOther(reply, next);
  });

  door.post('/servers/:server/tools/rule', manages, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const changedTools = sent.get('changedTools');
    await perform(serverUpdate, { organization, server, changedTools }, actor, ports);
    const next = `${serverPath(organization, server)}/tools?done=saved`;
    return seeOther(reply, next);
  });
}

function changedBadge(rule: 'flag' | 'withhold') {
  return rule === 'withhold'
    ? ({ text: 'changed, closed', tone: 'bad' } as const)
    : ({ text: 'changed', tone: 'care' } as const);
}
