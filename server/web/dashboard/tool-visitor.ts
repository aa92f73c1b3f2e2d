import type { ToolView } from '#admin/tools';
import { currentAdmissions } from '#db/admissions';
import { verdictOf } from '#db/explained-rights';
import { findServer } from '#db/servers';
import { allows, ToolRights } from '#model/tool-rights';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

/**
 * What of a server its pages show to this person: to administrators everything, to others what they may use themselves. What is restricted
 * to groups does not exist for people outside of them.
 */
export async function usableByVisitor(
  { organization, person, may }: DashboardVisit,
  name: string,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<(tool: Pick<ToolView, 'kind' | 'name'>) => boolean> {
  if (may('server.manage')) return () => true;
  const server = await findServer(db, organization, name);
  const at = { organization, server: name, userId: person.user.id };
  const admitted = await currentAdmissions(db).byPerson(at);
  if (!server || !admitted || 'suspension' in admitted) return () => false;
  const rights = new ToolRights(server.target, admitted.toolCaller);
  return ({ kind, name: own }) => {
    if (kind === 'instructions') return true;
    const verdict = verdictOf(rights, admitted.scopes, { kind, name: own });
    return verdict !== 'no_scope' && allows(verdict);
  };
}
