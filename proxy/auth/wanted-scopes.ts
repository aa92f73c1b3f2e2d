import type { Discovery } from './discover.ts';

/**
 * What to ask a person for: what the user configured, else what the challenge says, else what the
 * resource offers, else `undefined` (the server decides); and `more` on top. `offline_access` only
 * where the server knows it, as it is what brings a refresh token there.
 *
 * MCP 2026-07-28 authorization, scope selection
 */
export function wantedScopes(
  configured: readonly string[] | undefined,
  { challengedScopes, scopesSupported, serverScopesSupported }: Discovery,
  more: readonly string[] = [],
): string[] | undefined {
  const base = configured ?? challengedScopes ?? scopesSupported;
  const scopes = new Set([...(base ?? []), ...more]);
  if (scopes.size === 0) return undefined;
  if (serverScopesSupported?.includes('offline_access')) scopes.add('offline_access');
  return [...scopes];
}
