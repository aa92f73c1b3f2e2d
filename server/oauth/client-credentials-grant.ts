import { randomBase62 } from '#credentials/secret-format';
import { formatScopes } from '#credentials/scope';
import type { Clock } from '#clock/clock';
import type { OAuthClient } from '#credentials/oauth-client';
import type { AccessTokens } from '#signing/access-token';
import type { Form } from './form.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { requestedScopes } from './requested-scopes.ts';
import type { TokenResponse } from './token-response.ts';

const accessTokenLifeSeconds = 3600;

export interface ClientCredentialsGrantPorts {
  readonly tokens: AccessTokens;
  readonly clock: Clock;
  /** The URL of the MCP endpoint at `{organization}/{server}`. */
  readonly endpointUrl: (serverPath: string) => string;
}

/**
 * A token for the client itself, to the one server it belongs to. Never a refresh token: the client
 * can always ask again.
 *
 * RFC 6749 §4.4, RFC 8707 §2, RFC 9068 §2.2
 *
 * @throws {OAuthRefusal} `unauthorized_client`, `invalid_scope`, `invalid_target`
 */
export async function clientCredentialsGrant(
  client: OAuthClient,
  form: Form,
  { tokens, clock, endpointUrl }: ClientCredentialsGrantPorts,
): Promise<TokenResponse> {
  if (client.serverPath === undefined) {
    throw new OAuthRefusal('unauthorized_client', 'this client acts for people only');
  }
  const audience = endpointUrl(client.serverPath);
  const resource = form.get('resource');
  if (resource !== undefined && resource !== audience) {
    throw new OAuthRefusal('invalid_target', `this client is for ${audience}`);
  }
  const scopes = requestedScopes(form.get('scope'), client.scopes);
  const issuedAt = clock.now();
  const accessToken = await tokens.issue({
    id: randomBase62(22),
    subject: client.id,
    clientId: client.id,
    audience,
    scopes,
    issuedAt,
    expiresAt: issuedAt + accessTokenLifeSeconds,
  });
  return {
    access_token: accessToken,
    token_type: 'Bearer',
    expires_in: accessTokenLifeSeconds,
    scope: formatScopes(scopes),
  };
}
