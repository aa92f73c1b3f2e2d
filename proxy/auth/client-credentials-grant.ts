import type { Discovery } from './discover.ts';
import type { OAuthClient } from './oauth-client.ts';
import { tokenRequest, type GrantedToken, type OAuthPorts } from './token-request.ts';

/**
 * Asks for an access token as the client itself; `scopes` absent: whatever it may have.
 *
 * RFC 6749 §4.4, RFC 8707 §2
 *
 * @throws {OAuthError}
 */
export async function clientCredentialsGrant(
  { client, scopes = [] }: { client: OAuthClient; scopes?: readonly string[] | undefined },
  discovery: Discovery,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: 'client_credentials',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...(discovery.resource && { resource: discovery.resource }),
  };
  return tokenRequest(client, discovery, form, ports);
}
