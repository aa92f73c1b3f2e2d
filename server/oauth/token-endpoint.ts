import type { CredentialUse } from '#credentials/usage';
import type { EpochSeconds } from '#clock/clock';
import { authenticateClient, type ClientAuthenticationPorts } from './client-authentication.ts';
import {
  clientCredentialsGrant,
  type ClientCredentialsGrantPorts,
  type TokenResponse,
} from './client-credentials-grant.ts';
import type { Form } from './form.ts';
import { OAuthRefusal } from './oauth-refusal.ts';

export interface TokenEndpointPorts extends ClientAuthenticationPorts, ClientCredentialsGrantPorts {
  readonly used: (use: CredentialUse, usedAt: EpochSeconds) => void;
}

/**
 * `POST /api/oauth/token`: one of the grants we know, for a client that has proved who it is.
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
  if (grantType !== 'client_credentials') {
    throw new OAuthRefusal('unsupported_grant_type', 'grant_type must be client_credentials');
  }
  const client = await authenticateClient(form, authorization, ports);
  const answer = await clientCredentialsGrant(client, form, ports);
  ports.used({ type: 'client', id: client.id }, ports.clock.now());
  return answer;
}
