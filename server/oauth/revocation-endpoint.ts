import type { AccessTokens } from '#signing/access-token';
import { authenticateClient, type ClientAuthenticationPorts } from './client-authentication.ts';
import type { Form } from './form.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import type { RevokedTokenStore } from './revoked-token-store.ts';

export interface RevocationEndpointPorts extends ClientAuthenticationPorts {
  readonly tokens: AccessTokens;
  readonly revokedTokens: RevokedTokenStore;
}

/**
 * `POST /api/oauth/revoke`: the token no longer counts once this resolves. A token that is unknown,
 * expired or another client's changes nothing and is no error: the caller learns nothing of it.
 *
 * RFC 7009 §2
 *
 * @throws {OAuthRefusal} `invalid_request`, `invalid_client`
 */
export async function revocationEndpoint(
  form: Form,
  authorization: string | undefined,
  ports: RevocationEndpointPorts,
): Promise<void> {
  const client = await authenticateClient(form, authorization, ports);
  const token = form.get('token');
  if (token === undefined) throw new OAuthRefusal('invalid_request', 'token is missing');
  const verdict = await ports.tokens.verify(token);
  if (verdict.outcome === 'invalid' || verdict.claims.clientId !== client.id) return;
  await ports.revokedTokens.revoke(verdict.claims, ports.clock.now());
}
