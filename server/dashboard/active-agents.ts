import { agentList } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import type { DashboardVisit } from './dashboard-door.ts';
import type { DashboardPorts } from './dashboard-ports.ts';

/** The names of the agents that a server can be bound to. */
export async function activeAgents(
  { organization, actor }: DashboardVisit,
  ports: DashboardPorts,
): Promise<readonly string[]> {
  const wanted = { organization, status: 'active', sort: 'name', limit: 200 };
  return (await perform(agentList, wanted, actor, ports)).items.map(({ name }) => name);
}
