import assert from 'node:assert/strict';

import { accessTokenLifeSeconds } from './access-tokens.ts';
import type { IdentifiedClient } from './client-authentication.ts';
import { OAuthError } from './oauth-error.ts';
import { formatScopes } from '#model/scopes';
import { requestedScopes } from './permitted-scopes.ts';
import { randomBase62 } from '#secrets/secrets';
import type { GrantContext, Issued, TokenRequest } from './token-response.ts';

/**
 * Issues a token to the client itself, for the one server it belongs to. There is no refresh token, because the
 * client can always ask again.
 *
 * RFC 6749 §4.4, RFC 8707 §2, RFC 9068 §2.2
 *
 * @throws {OAuthError} `unauthorized_client`, `invalid_scope`, `invalid_target`
 */
export function clientCredentialsGrant(
  { client }: IdentifiedClient,
  { form }: TokenRequest,
  { tokens, clock, endpointUrl }: GrantContext,
): Issued {
  assert(client.serverPath !== undefined, 'only clients of a server can use this grant');
  const audience = endpointUrl(client.serverPath);
  const resource = form.get('resource');
  if (resource !== undefined && resource !== audience) {
    throw new OAuthError('invalid_target', `this client is for ${audience}`);
  }
  const scopes = requestedScopes(form.get('scope'), client.scopes);
  const issuedAt = clock.now();
  const accessToken = tokens.issue({
    id: randomBase62(22),
    subject: client.id,
    clientId: client.id,
    audience,
    scopes,
    issuedAt,
    expiresAt: issuedAt + accessTokenLifeSeconds,
  });
  return {
    tokens: {
      access_token: accessToken,
      token_type: 'Bearer',
      expires_in: accessTokenLifeSeconds,
      scope: formatScopes(scopes),
    },
  };
}
