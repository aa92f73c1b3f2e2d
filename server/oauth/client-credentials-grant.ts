import assert from 'node:assert/strict';

import type { IdentifiedClient } from './client-authentication.ts';
import { OAuthError } from './oauth-error.ts';
import { requestedScopes } from './permitted-scopes.ts';
import {
  clientToken,
  type GrantContext,
  type Issued,
  type TokenRequest,
} from './token-response.ts';

/**
 * Issues a token to the client itself, for the one server it belongs to.
 *
 * RFC 6749 §4.4, RFC 8707 §2, RFC 9068 §2.2
 *
 * @throws {OAuthError} `unauthorized_client`, `invalid_scope`, `invalid_target`
 */
export function clientCredentialsGrant(
  { client }: IdentifiedClient,
  { form }: TokenRequest,
  ports: GrantContext,
): Issued {
  assert(client.serverPath !== undefined, 'only clients of a server can use this grant');
  const audience = ports.endpointUrl(client.serverPath);
  const resource = form.get('resource');
  if (resource !== undefined && resource !== audience) {
    throw new OAuthError('invalid_target', `this client is for ${audience}`);
  }
  const scopes = requestedScopes(form.get('scope'), client.scopes);
  return clientToken(client, { scopes, audience }, ports);
}
