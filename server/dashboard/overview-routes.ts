import { dashboardPath } from '#pages/dashboard-frame';
import { overviewPage } from '#pages/overview-page';
import { callWords } from '#pages/usage-words';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { overviewFacts } from './overview-facts.ts';
import { endpointTable, oldKeyTable, refusalTable } from './overview-tables.ts';
import { recalledWork } from './recalled-work.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { usagePath } from './usage-query.ts';

const needs = { permission: 'organization.read', section: 'overview' } as const;
const day = { range: '24h', kind: 'server', subject: undefined } as const;
const minute = 60;

/** `/dashboard/{organization}`: its endpoints, its last day, old keys and refusals. */
export function overviewRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;
  const recalled = recalledWork(ports.changes);

  door.get('', needs, async (visit, _request, reply) => {
    const { organization, role, may } = visit;
    const now = clock.now();
    const key = [organization, role, now - (now % minute)];
    const facts = await recalled(key, () => overviewFacts(visit, ports));
    const { servers, total, calls, plots, usage, oldKeys, hasMoreOldKeys, refusals } = facts;
    const home = dashboardPath(organization);
    const create = { text: 'Create server', href: `${home}/new-server` };
    const action = may('server.manage') ? create : undefined;
    const data = {
      heading: organization,
      lead: `${total} ${total === 1 ? 'server' : 'servers'}, ${callWords(calls)} ${calls === 1 ? 'call' : 'calls'} in the last day.`,
      action,
      plots,
      usage: usagePath(organization, day),
      endpoints: endpointTable(servers, usage, { base, now, action }),
      servers:
        total > servers.length
          ? { text: `All ${total} servers`, href: `${home}/servers` }
          : undefined,
      keys: oldKeyTable(organization, oldKeys, now),
      moreKeys: hasMoreOldKeys ? 'These are the oldest; there are more.' : undefined,
      refusals: refusals && refusalTable(refusals, now),
    };
    return sendDashboardPage(reply, visit, overviewPage, data, { crumbs: [] });
  });
}
