import { perform } from '#administration/perform';
import { serverRead } from '#administration/server-operations';
import type { DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardPorts } from './dashboard-ports.ts';

/** The server that the path names. @throws {AdministrationRefusal} `not_found` */
export function serverOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  return perform(serverRead, { organization, server: params['server'] ?? '' }, actor, ports);
}
