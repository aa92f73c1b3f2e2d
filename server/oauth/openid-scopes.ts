const openIdScopes = new Set(['openid', 'profile', 'email', 'offline_access']);

/**
 * A scope parameter without the four words of OpenID Connect, which old clients send unasked and which
 * mean nothing here. `undefined` when nothing else was in it.
 */
export function withoutOpenIdScopes(scope: string | undefined): string | undefined {
  const words = scope?.split(/[ ,]+/).filter((word) => word !== '' && !openIdScopes.has(word));
  return words && words.length > 0 ? words.join(' ') : undefined;
}
