import type { CredentialUse } from '#credentials/usage';
import type { EpochSeconds } from '#clock/clock';
import {
  authorizationCodeGrant,
  type AuthorizationCodeGrantPorts,
} from './authorization-code-grant.ts';
import {
  clientCredentialsGrant,
  type ClientCredentialsGrantPorts,
} from './client-credentials-grant.ts';
import type { Form } from './form.ts';
import {
  identifyClient,
  provedClient,
  type IdentifiedClient,
  type IdentifyClientPorts,
} from './identify-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { refreshTokenGrant, type RefreshTokenGrantPorts } from './refresh-token-grant.ts';
import type { TokenResponse } from './token-response.ts';

export interface TokenEndpointPorts
  extends
    IdentifyClientPorts,
    ClientCredentialsGrantPorts,
    AuthorizationCodeGrantPorts,
    RefreshTokenGrantPorts {
  readonly grants: AuthorizationCodeGrantPorts['grants'];
  readonly used: (use: CredentialUse, usedAt: EpochSeconds) => void;
}

type Grant = (
  from: IdentifiedClient,
  form: Form,
  ports: TokenEndpointPorts,
) => Promise<TokenResponse>;

/** The grants that the token endpoint knows. */
const grantTypes: ReadonlyMap<string, Grant> = new Map<string, Grant>([
  [
    'client_credentials',
    (from, form, ports) => clientCredentialsGrant(provedClient(from), form, ports),
  ],
  ['authorization_code', authorizationCodeGrant],
  ['refresh_token', refreshTokenGrant],
]);

/**
 * `POST /api/oauth/token`: one of the grants we know, for the client that the request names.
 *
 * RFC 6749 §3.2
 *
 * @throws {OAuthRefusal} any of its codes
 */
export async function tokenEndpoint(
  form: Form,
  authorization: string | undefined,
  ports: TokenEndpointPorts,
): Promise<TokenResponse> {
  const grantType = form.get('grant_type');
  if (grantType === undefined) throw new OAuthRefusal('invalid_request', 'grant_type is missing');
  const grant = grantTypes.get(grantType);
  if (!grant) {
    const known = [...grantTypes.keys()].join(', ');
    throw new OAuthRefusal('unsupported_grant_type', `grant_type must be one of ${known}`);
  }
  const from = await identifyClient(form, authorization, ports);
  const answer = await grant(from, form, ports);
  ports.used({ type: 'client', id: from.client.id }, ports.clock.now());
  return answer;
}
