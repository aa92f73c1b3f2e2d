import { allScopes, type Scope } from '#oauth/scopes';
import { randomBase62 } from '#oauth/secrets';

const mostCharacters = 254;

/** `user_` and 16 base62 characters. */
export function newUserId(): string {
  return `user_${randomBase62(16)}`;
}

/** The form in which e-mail addresses are compared: normalized, in lower case. */
export function emailKey(email: string): string {
  return email.normalize('NFKC').trim().toLowerCase();
}

/**
 * Whether `text` looks like an e-mail address: one `@` between something and a domain, all characters visible. With a
 * zero-width character an address would look like another person's. RFC 5321 §4.5.3.1
 */
export function isEmail(text: string): boolean {
  if (text.length > mostCharacters || /[\p{Cc}\p{Cf}\p{Cs}]/u.test(text)) return false;
  return /^[^\s@<>"]+@[^\s@<>"]+$/.test(text);
}

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
