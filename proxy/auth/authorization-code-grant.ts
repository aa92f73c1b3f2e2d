import type { Discovery } from './discover.ts';
import type { OAuthClient } from './oauth-client.ts';
import { tokenRequest, type GrantedToken, type OAuthPorts } from './token-request.ts';

export type RedeemedCode = {
  client: OAuthClient;
  code: string;
  codeVerifier: string;
  redirectUri: string;
};

/**
 * Redeems an authorization code, once its redirect was found to be ours.
 *
 * RFC 6749 §4.1.3, RFC 7636 §4.5, RFC 8707 §2
 *
 * @throws {OAuthError}
 */
export async function authorizationCodeGrant(
  { client, code, codeVerifier, redirectUri }: RedeemedCode,
  discovery: Discovery,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri,
    code_verifier: codeVerifier,
    ...(discovery.resource && { resource: discovery.resource }),
  };
  return tokenRequest(client, discovery, form, ports);
}
