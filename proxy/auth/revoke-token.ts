import { authenticateClient } from './authenticate-client.ts';
import type { Discovery } from './discover.ts';
import { fetchJson } from './fetch-json.ts';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';
import type { OAuthPorts } from './token-request.ts';

export type RevokedToken = {
  client: OAuthClient;
  token: string;
  hint: 'access_token' | 'refresh_token';
};

/**
 * Takes a token back at the server that gave it.
 *
 * RFC 7009 §2.1
 *
 * @throws {OAuthError} also when the server has no place for that
 */
export async function revokeToken(
  { client, token, hint }: RevokedToken,
  discovery: Discovery,
  { http, clock }: OAuthPorts,
): Promise<void> {
  const endpoint = discovery.revocationEndpoint;
  if (endpoint === undefined)
    throw new OAuthError('metadata', `${discovery.issuer} offers no revocation`, {
      endpoint: discovery.issuer,
    });
  const proof = await authenticateClient(client, discovery, clock.now());
  const form = new URLSearchParams({ token, token_type_hint: hint, ...proof.form });
  const { status } = await fetchJson(http, {
    url: new URL(endpoint),
    within: discovery.within,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...proof.headers },
    body: Buffer.from(form.toString()),
  });
  if (status === 200) return;
  throw new OAuthError(
    status >= 500 || status === 429 ? 'unreachable' : 'refused',
    `${endpoint} answered ${status}`,
    { endpoint, status },
  );
}
