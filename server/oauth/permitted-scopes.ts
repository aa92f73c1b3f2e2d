import type { OAuthClient } from '#credentials/oauth-client';
import type { Scope } from '#credentials/scope';
import type { ServerGroupStore } from '#people/group-store';
import { roleScopes } from '#people/role';
import type { UserStore } from '#people/user';

export interface PermittedScopesPorts {
  readonly users: Pick<UserStore, 'memberships'>;
  readonly serverGroups: Pick<ServerGroupStore, 'mayUse'>;
}

/**
 * Which of `scopes` this person may give this client at this server now. `undefined` for somebody who
 * is not, or no longer, a member of the server's organization, or of a group that may use the server where
 * only groups may.
 */
export async function permittedScopes(
  scopes: readonly Scope[],
  about: { userId: string; serverPath: string; client: Pick<OAuthClient, 'scopes'> },
  { users, serverGroups }: PermittedScopesPorts,
): Promise<readonly Scope[] | undefined> {
  const [organization] = about.serverPath.split('/');
  const memberships = await users.memberships(about.userId);
  const membership = memberships.find((candidate) => candidate.organization === organization);
  if (!membership) return undefined;
  if (!(await serverGroups.mayUse(about.userId, about.serverPath))) return undefined;
  const most = roleScopes(membership.role);
  return scopes.filter((scope) => most.includes(scope) && about.client.scopes.includes(scope));
}
