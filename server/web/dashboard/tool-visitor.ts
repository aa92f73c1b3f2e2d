import type { ToolView } from '#admin/tools';
import { usableBy } from '#db/explained-rights';
import { findServer } from '#db/servers';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

/**
 * Returns a function that says whether the pages of a server show a tool to this person. It follows the rule of `tool.list`, also for tools
 * that the server lists only now.
 */
export async function usableByVisitor(
  { organization, person, may }: DashboardVisit,
  name: string,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<(tool: Pick<ToolView, 'kind' | 'name'>) => boolean> {
  if (may('server.manage')) return () => true;
  const server = await findServer(db, organization, name);
  const mayUse = server && (await usableBy(db, server, person.user.id));
  if (!mayUse) return () => false;
  return ({ kind, name: own }) => kind === 'instructions' || mayUse({ kind, name: own });
}
