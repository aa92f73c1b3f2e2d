import type { Clock } from '#clock/clock';
import { formatScopes, type Scope } from '#credentials/scope';
import { randomBase62 } from '#credentials/secret-format';
import type { AccessTokens } from '#signing/access-token';
import type { NamedGrant } from './grant-store.ts';
import type { TokenResponse } from './token-response.ts';

const accessTokenLifeSeconds = 3600;

export interface GrantedTokenPorts {
  readonly tokens: AccessTokens;
  readonly clock: Clock;
  /** The URL of the MCP endpoint at `{organization}/{server}`. */
  readonly endpointUrl: (serverPath: string) => string;
}

type Granted = Pick<NamedGrant, 'id' | 'userId' | 'clientId' | 'serverPath' | 'expiresAt'>;

/** The answer to whoever may have tokens of this grant: an access token, and the way to the next one. */
export async function grantedToken(
  grant: Granted,
  { scopes, refreshToken }: { scopes: readonly Scope[]; refreshToken: string },
  { tokens, clock, endpointUrl }: GrantedTokenPorts,
): Promise<TokenResponse> {
  const issuedAt = clock.now();
  // The grant's end is in the token, so that nobody has to ask for it at every call.
  const expiresAt = Math.min(issuedAt + accessTokenLifeSeconds, grant.expiresAt);
  const accessToken = await tokens.issue({
    id: randomBase62(22),
    subject: grant.userId,
    clientId: grant.clientId,
    grantId: grant.id,
    audience: endpointUrl(grant.serverPath),
    scopes,
    issuedAt,
    expiresAt,
  });
  return {
    access_token: accessToken,
    token_type: 'Bearer',
    expires_in: expiresAt - issuedAt,
    scope: formatScopes(scopes),
    refresh_token: refreshToken,
  };
}
