import type { OAuthClient } from '#credentials/oauth-client';
import type { Scope } from '#credentials/scope';
import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import type { ServerGroupStore } from '#people/group-store';
import { roleScopes } from '#people/role';
import type { UserStore } from '#people/user';

export interface PermittedScopesPorts {
  readonly users: Pick<UserStore, 'memberships'>;
  readonly serverGroups: Pick<ServerGroupStore, 'mayUse'>;
  readonly settings: Pick<OrganizationSettingsStore, 'of'>;
}

export type Permitted =
  /** At least one scope. */
  | { readonly outcome: 'permitted'; readonly scopes: readonly Scope[] }
  /** Not, or no longer, a member of the organization, or of a group that may use the server. */
  | { readonly outcome: 'stranger' }
  /** The client registered itself, and the organization accepts only those of its administrators. */
  | { readonly outcome: 'closed' }
  /** The role of the person covers none of the scopes. */
  | { readonly outcome: 'nothing' };

/** What a client is told when a person cannot give it anything. */
export const notPermittedWords = {
  stranger: 'the account that is signed in cannot use this server',
  closed: 'this organization accepts only applications that its administrators created',
  nothing: 'the role of this person does not cover it',
} as const;

/**
 * Which of `scopes` this person may give this client at this server now. It is asked again whenever a code or a
 * refresh token is used, so that a setting, a role or a group counts from the moment in which it changes. The
 * admission of access tokens asks the same in SQL.
 */
export async function permittedScopes(
  scopes: readonly Scope[],
  about: {
    userId: string;
    serverPath: string;
    client: Pick<OAuthClient, 'scopes' | 'serverId'>;
  },
  { users, serverGroups, settings }: PermittedScopesPorts,
): Promise<Permitted> {
  const { userId, serverPath, client } = about;
  const [organization = ''] = serverPath.split('/');
  const memberships = await users.memberships(userId);
  const membership = memberships.find((candidate) => candidate.organization === organization);
  const rules = await settings.of(organization);
  if (!membership || !rules) return { outcome: 'stranger' };
  if (!(await serverGroups.mayUse(userId, serverPath))) return { outcome: 'stranger' };
  if (client.serverId === undefined && !rules.openClientsAllowed) return { outcome: 'closed' };
  const most = roleScopes(membership.role);
  const permitted = scopes.filter((scope) => most.includes(scope) && client.scopes.includes(scope));
  if (permitted.length === 0) return { outcome: 'nothing' };
  return { outcome: 'permitted', scopes: permitted };
}
