import { createHash, randomBytes } from 'node:crypto';
import type { Discovery } from './discover.ts';
import { OAuthError } from './oauth-error.ts';

/** A request for a person's consent that is under way. The verifier never leaves this process. */
export type AuthorizationRequest = {
  url: URL;
  state: string;
  codeVerifier: string;
  redirectUri: string;
};

export type AuthorizationRequestInput = {
  clientId: string;
  redirectUri: string;
  scopes: readonly string[] | undefined;
  /** What some servers want besides; the protocol's own parameters win. */
  authorizeParams?: Readonly<Record<string, string>>;
};

/**
 * The URL at which a person is asked, with PKCE and a state of its own.
 *
 * RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2
 *
 * @throws {OAuthError} `metadata` when the server cannot be asked safely
 */
export function authorizationRequest(
  { clientId, redirectUri, scopes, authorizeParams }: AuthorizationRequestInput,
  { issuer, authorizationEndpoint, takesS256, resource }: Discovery,
): AuthorizationRequest {
  const endpoint = authorizationEndpoint ?? issuer;
  if (authorizationEndpoint === undefined)
    throw new OAuthError('metadata', `${issuer} names no authorization endpoint`, { endpoint });
  if (!takesS256)
    throw new OAuthError('metadata', `${issuer} does not announce PKCE with S256`, { endpoint });
  const codeVerifier = randomBytes(48).toString('base64url');
  const state = randomBytes(24).toString('base64url');
  const url = new URL(authorizationEndpoint);
  const query = {
    ...authorizeParams,
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    state,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...(scopes?.length && { scope: scopes.join(' ') }),
    ...(resource && { resource }),
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return { url, state, codeVerifier, redirectUri };
}
