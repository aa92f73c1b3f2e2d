import { notFound } from '#administration/administration-refusal';
import { keyRead } from '#administration/key-operations';
import { perform } from '#administration/perform';
import type { DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardPorts } from './dashboard-ports.ts';

/**
 * The key that the path names by its part `name`, if the server that it names has it.
 *
 * @throws {AdministrationRefusal} `not_found`
 */
export async function keyOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
  name: 'keyId' | 'newKeyId' = 'keyId',
) {
  const input = { organization, keyId: params[name] ?? '' };
  const key = await perform(keyRead, input, actor, ports);
  if (key.server !== params['server']) throw notFound('key');
  return key;
}
