import type { OAuthClient } from '#credentials/oauth-client';
import type { Scope } from '#credentials/scope';
import { roleScopes } from '#people/role';
import type { UserStore } from '#people/user';

export interface PermittedScopesPorts {
  readonly users: Pick<UserStore, 'memberships'>;
}

/**
 * Which of `scopes` this person may give this client at this server now. `undefined` for somebody who
 * is not, or no longer, a member of the server's organization.
 */
export async function permittedScopes(
  scopes: readonly Scope[],
  about: { userId: string; serverPath: string; client: Pick<OAuthClient, 'scopes'> },
  { users }: PermittedScopesPorts,
): Promise<readonly Scope[] | undefined> {
  const [organization] = about.serverPath.split('/');
  const memberships = await users.memberships(about.userId);
  const membership = memberships.find((candidate) => candidate.organization === organization);
  if (!membership) return undefined;
  const most = roleScopes(membership.role);
  return scopes.filter((scope) => most.includes(scope) && about.client.scopes.includes(scope));
}
