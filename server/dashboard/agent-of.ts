import { agentRead } from '#administration/agent-operations';
import { perform } from '#administration/perform';
import type { DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardPorts } from './dashboard-ports.ts';

/** The agent that the path names. @throws {AdministrationRefusal} `not_found` */
export function agentOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  return perform(agentRead, { organization, agent: params['agent'] ?? '' }, actor, ports);
}
