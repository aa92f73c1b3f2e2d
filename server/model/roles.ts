import { allScopes, type Scope } from './scopes.ts';

/** The roles in an organization, most powerful first. */
export const roles = ['owner', 'admin', 'member', 'viewer'] as const;
export type Role = (typeof roles)[number];

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}

/** The scopes that a role may grant. Managing a server is for owners and admins. */
export function roleScopes(role: Role): readonly Scope[] {
  return role === 'owner' || role === 'admin'
    ? allScopes
    : allScopes.filter((scope) => scope !== 'mcp:server:manage');
}
