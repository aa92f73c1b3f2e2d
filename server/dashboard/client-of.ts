import { notFound } from '#administration/administration-refusal';
import { clientRead } from '#administration/client-operations';
import { perform } from '#administration/perform';
import type { DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardPorts } from './dashboard-ports.ts';

/** The client that the path names, if the server that it names has it. @throws {AdministrationRefusal} */
export async function clientOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  const input = { organization, clientId: params['clientId'] ?? '' };
  const client = await perform(clientRead, input, actor, ports);
  if (client.server !== params['server']) throw notFound('client');
  return client;
}
