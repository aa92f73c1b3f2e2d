import { roles, type Role } from '#people/role';

/** What a role may do, for somebody who chooses one. */
const words: Readonly<Record<Role, string>> = {
  owner: 'Everything, and the only one who changes settings, owners and the organization itself.',
  admin:
    'Servers, clients, keys, agents, people, groups and the audit log; no owners, no settings.',
  member: 'Uses servers, allows applications, tries tools here; changes nothing in the dashboard.',
  viewer: 'Sees the dashboard and changes nothing there; may use servers through applications.',
};

/** The roles to choose from; only an owner makes an owner. */
export function roleOptions(chosen: string, mayMakeOwners: boolean) {
  return roles
    .filter((role) => role !== 'owner' || mayMakeOwners || chosen === 'owner')
    .map((role) => ({
      value: role,
      text: `${role.charAt(0).toUpperCase()}${role.slice(1)}`,
      help: words[role],
      risk: '',
      isChosen: role === chosen,
    }));
}
