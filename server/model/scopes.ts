/** All scopes, in the order in which they are listed. */
export const allScopes = [
  'mcp:tools:read',
  'mcp:tools:execute',
  'mcp:resources:read',
  'mcp:server:read',
  'mcp:server:manage',
] as const;

export type Scope = (typeof allScopes)[number];

/** The scopes for using a server; none for administering it. */
export const ordinaryScopes: readonly Scope[] = [
  'mcp:tools:read',
  'mcp:tools:execute',
  'mcp:resources:read',
];

/** The scopes of an MCP key unless its creator chose others. */
export const defaultKeyScopes: readonly Scope[] = allScopes.filter(
  (scope) => scope !== 'mcp:server:manage',
);

export function isScope(text: string): text is Scope {
  return (allScopes as readonly string[]).includes(text);
}

/** Splits a scope parameter. Some clients separate scopes by spaces, others by commas. */
export function scopeWords(text: string): string[] {
  return [...new Set(text.split(/[ ,]+/).filter(Boolean))];
}

/** Formats scopes for a response: without repetition, in the order of `allScopes`, separated by single spaces. RFC 6749 §3.3 */
export function formatScopes(scopes: Iterable<Scope>): string {
  const wanted = new Set(scopes);
  return allScopes.filter((scope) => wanted.has(scope)).join(' ');
}

const openIdScopes = new Set(['openid', 'profile', 'email', 'offline_access']);

/**
 * Removes the four scopes of OpenID Connect, which old clients always send and which mean nothing here. `undefined`
 * if no other scope remains.
 */
export function withoutOpenIdScopes(scope: string | undefined): string | undefined {
  const words = scope?.split(/[ ,]+/).filter((word) => word !== '' && !openIdScopes.has(word));
  return words && words.length > 0 ? words.join(' ') : undefined;
}

/**
 * Removes scopes of this server that a client which registered itself can never have: Gemini CLI requests everything that
 * the metadata of an authorization server lists. Unchanged if no other scope remains. RFC 6749 §3.3
 */
export function withoutUnobtainableScopes(
  scope: string | undefined,
  allowed: readonly Scope[],
): string | undefined {
  const words = scope?.split(/[ ,]+/).filter((word) => !isScope(word) || allowed.includes(word));
  return words?.some(Boolean) ? words.join(' ') : scope;
}
