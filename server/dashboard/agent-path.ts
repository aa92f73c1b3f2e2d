import { dashboardPath } from '#pages/dashboard-frame';

/** The path of an agent's page. */
export function agentPath(organization: string, agent: string): string {
  return `${dashboardPath(organization)}/agents/${agent}`;
}
