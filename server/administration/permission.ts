import { roles, type Role } from '#people/role';

/** What each operation takes, and who has it: the role named, and every role above it. */
const leastRole = {
  'organization.read': 'viewer',
  'organization.manage': 'owner',
  'server.read': 'viewer',
  'server.try': 'member',
  'server.manage': 'admin',
  'client.read': 'viewer',
  'client.manage': 'admin',
  'key.read': 'viewer',
  'key.manage': 'admin',
  'agent.read': 'viewer',
  'agent.manage': 'admin',
  'people.read': 'viewer',
  'people.manage': 'admin',
  'owners.manage': 'owner',
  'grants.read': 'admin',
  'grants.manage': 'admin',
  'audit.read': 'admin',
  'webhook.manage': 'admin',
  'usage.read': 'viewer',
} as const satisfies Record<string, Role>;

/** What an operation takes: `server.manage`. */
export type Permission = keyof typeof leastRole;

/** Whether a role may do what takes `permission`; a role may all that those below it may. */
export function mayDo(role: Role, permission: Permission): boolean {
  return roles.indexOf(role) <= roles.indexOf(leastRole[permission]);
}
