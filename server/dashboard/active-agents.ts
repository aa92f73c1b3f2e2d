import { agentList } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import type { DashboardVisit } from './dashboard-door.ts';
import type { DashboardPorts } from './dashboard-ports.ts';
import { recalledWork } from './recalled-work.ts';

const aPage = 200;
/** More make a list that is longer than anybody reads. */
const mostPages = 10;

/** The names of the agents that a server can be bound to, in their order. */
export function activeAgents(ports: DashboardPorts) {
  const recalled = recalledWork(ports.changes);

  return (visit: DashboardVisit): Promise<readonly string[]> => {
    const { organization, role, actor } = visit;
    return recalled([organization, role], async () => {
      const wanted = { organization, status: 'active', sort: 'name', limit: aPage };
      const names: string[] = [];
      for (let page = 1; page <= mostPages; page += 1) {
        const { items, total } = await perform(agentList, { ...wanted, page }, actor, ports);
        names.push(...items.map(({ name }) => name));
        if (names.length >= total) break;
      }
      return names;
    });
  };
}
