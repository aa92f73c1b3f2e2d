import type { HttpClient } from '#transport/http-client';
import { redact } from '#log/redact';
import type { Discovery } from './discover.ts';
import { fetchJson } from './fetch-json.ts';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';

/** A client that an authorization server made for us; good there and nowhere else. */
export type RegisteredClient = Omit<OAuthClient, 'privateKey'> & {
  issuer: string;
  redirectUri: string;
};

/**
 * Registers this program as a native application, without a secret wherever the server allows.
 *
 * RFC 7591 §3.1, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function registerClient(
  { redirectUri, scopes }: { redirectUri: string; scopes: readonly string[] | undefined },
  { issuer, registrationEndpoint, tokenEndpointAuthMethods: methods, within }: Discovery,
  http: HttpClient,
): Promise<RegisteredClient> {
  const endpoint = registrationEndpoint ?? issuer;
  const wanted = ['none', 'client_secret_basic', 'client_secret_post'];
  const asked = wanted.find((method) => methods.includes(method)) ?? 'none';
  const { status, json } = await fetchJson(http, {
    url: new URL(endpoint),
    within,
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: Buffer.from(
      JSON.stringify({
        client_name: 'Latchkey',
        application_type: 'native',
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: asked,
        ...(scopes?.length && { scope: scopes.join(' ') }),
      }),
    ),
  });
  const { client_id: clientId, client_secret: clientSecret } = json ?? {};
  if ((status !== 200 && status !== 201) || typeof clientId !== 'string' || clientId === '') {
    const reason = typeof json?.['error'] === 'string' ? ` (${redact(json['error'])})` : '';
    throw new OAuthError(
      status >= 500 || status === 429 ? 'unreachable' : 'refused',
      `${endpoint} answered ${status}${reason} to our registration`,
      { endpoint, status },
    );
  }
  const agreed = json?.['token_endpoint_auth_method'];
  return {
    clientId,
    issuer,
    redirectUri,
    authMethod: typeof agreed === 'string' ? agreed : asked,
    ...(typeof clientSecret === 'string' && clientSecret !== '' && { clientSecret }),
  };
}
