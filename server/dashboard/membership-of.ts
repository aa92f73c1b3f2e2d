import type { CurrentPerson } from '#http/current-person';
import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import type { Role } from '#people/role';
import type { UserStore } from '#people/user';

/** What somebody is in an organization, and where else they are a member. */
export interface Membership {
  readonly role: Role;
  /** The names of their other organizations, sorted. */
  readonly others: readonly string[];
  /** Whether the browser has proved the second factor, where the organization asks for one. */
  readonly isProved: boolean;
}

/** Where memberships and the rules of organizations are kept. */
export interface MembershipPorts {
  readonly users: Pick<UserStore, 'memberships'>;
  readonly settings: Pick<OrganizationSettingsStore, 'of'>;
}

/**
 * The membership of a person in an organization as it is now; `undefined` for everybody else, whether there is such an
 * organization or not.
 */
export async function membershipOf(
  { user, session }: CurrentPerson,
  organization: string,
  { users, settings }: MembershipPorts,
): Promise<Membership | undefined> {
  const memberships = await users.memberships(user.id);
  const role = memberships.find((membership) => membership.organization === organization)?.role;
  if (!role) return undefined;
  const rules = await settings.of(organization);
  const others = memberships.map((membership) => membership.organization);
  return {
    role,
    others: others.filter((name) => name !== organization).toSorted(),
    isProved: session.factors === 2 || rules?.secondFactorRequired === false,
  };
}
