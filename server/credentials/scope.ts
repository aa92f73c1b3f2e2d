/** Every scope there is, in the order in which they are listed. */
export const allScopes = [
  'mcp:tools:read',
  'mcp:tools:execute',
  'mcp:resources:read',
  'mcp:server:read',
  'mcp:server:manage',
] as const;

export type Scope = (typeof allScopes)[number];

/** What a caller who uses a server needs, and nothing of administering it. */
export const ordinaryScopes: readonly Scope[] = [
  'mcp:tools:read',
  'mcp:tools:execute',
  'mcp:resources:read',
];

/** What an MCP key may do unless its maker chose otherwise. */
export const defaultKeyScopes: readonly Scope[] = allScopes.filter(
  (scope) => scope !== 'mcp:server:manage',
);

export function isScope(text: string): text is Scope {
  return (allScopes as readonly string[]).includes(text);
}

/** The words of a scope parameter, which one client separates by spaces and another by commas. */
export function scopeWords(text: string): string[] {
  return [...new Set(text.split(/[ ,]+/).filter(Boolean))];
}

/** Scopes as a response spells them: each once, in our order, single spaces. RFC 6749 §3.3 */
export function formatScopes(scopes: Iterable<Scope>): string {
  const wanted = new Set(scopes);
  return allScopes.filter((scope) => wanted.has(scope)).join(' ');
}
