import type { Discovery } from './discover.ts';
import type { OAuthClient } from './oauth-client.ts';
import { tokenRequest, type GrantedToken, type OAuthPorts } from './token-request.ts';

/**
 * Exchanges a refresh token for an access token and, where the server rotates, its successor. It
 * must be stored before anything else happens: the old one may be burnt.
 *
 * RFC 6749 §6, RFC 8707 §2
 *
 * @throws {OAuthError} `refused` with `invalid_grant` when it is no longer good
 */
export async function refreshTokenGrant(
  { client, refreshToken }: { client: OAuthClient; refreshToken: string },
  discovery: Discovery,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: 'refresh_token',
    refresh_token: refreshToken,
    ...(discovery.resource && { resource: discovery.resource }),
  };
  return tokenRequest(client, discovery, form, ports);
}
