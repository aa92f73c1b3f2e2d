import type { Clock } from '#clock/clock';
import type { HttpClient } from '#transport/http-client';
import { redact } from '#log/redact';
import { authenticateClient } from './authenticate-client.ts';
import type { AuthorizationServer } from './authorization-server.ts';
import { fetchJson, type JsonAnswer } from './fetch-json.ts';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';

/** What a token endpoint hands out. RFC 6749 §5.1 */
export type GrantedToken = {
  accessToken: string;
  /** `undefined` when the server does not say how long it lives. */
  expiresInSeconds?: number;
  scope?: string;
  refreshToken?: string;
};

export type OAuthPorts = { http: HttpClient; clock: Clock };

/**
 * One exchange with a token endpoint, in the name of `client`.
 *
 * RFC 6749 §3.2, §5
 *
 * @throws {OAuthError}
 */
export async function tokenRequest(
  client: OAuthClient,
  server: Pick<
    AuthorizationServer,
    'issuer' | 'tokenEndpoint' | 'tokenEndpointAuthMethods' | 'within'
  >,
  grant: Record<string, string>,
  { http, clock }: OAuthPorts,
): Promise<GrantedToken> {
  const endpoint = server.tokenEndpoint;
  const proof = await authenticateClient(client, server, clock.now());
  const answer = await fetchJson(http, {
    url: new URL(endpoint),
    within: server.within,
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
      ...proof.headers,
    },
    body: Buffer.from(new URLSearchParams({ ...grant, ...proof.form }).toString()),
  });
  const { clientSecret = '' } = client;
  const { code = '', code_verifier: verifier = '', refresh_token: refreshToken = '' } = grant;
  const assertion = proof.form['client_assertion'] ?? '';
  return readToken(answer, endpoint, [clientSecret, code, verifier, refreshToken, assertion]);
}

function readToken(
  { status, json }: JsonAnswer,
  endpoint: string,
  secrets: readonly string[],
): GrantedToken {
  if (status !== 200) throw refusal(status, json, endpoint, secrets);
  const {
    access_token: accessToken,
    token_type: type,
    expires_in: seconds,
    scope,
    refresh_token: refreshToken,
  } = json ?? {};
  if (typeof accessToken !== 'string' || !/^[\x21-\x7e]+$/.test(accessToken))
    throw new OAuthError('metadata', `${endpoint} answered without an access token`, {
      endpoint,
      status,
    });
  if (typeof type === 'string' && type.toLowerCase() !== 'bearer')
    throw new OAuthError('metadata', `${endpoint} hands out ${redact(type)} tokens, not Bearer`, {
      endpoint,
      status,
    });
  const expiresInSeconds = Number(seconds);
  return {
    accessToken,
    ...(expiresInSeconds > 0 && { expiresInSeconds }),
    ...(typeof scope === 'string' && { scope }),
    ...(typeof refreshToken === 'string' && refreshToken !== '' && { refreshToken }),
  };
}

function refusal(
  status: number,
  json: JsonAnswer['json'],
  endpoint: string,
  secrets: readonly string[],
): OAuthError {
  const error = plainText(json?.['error'], secrets);
  const errorDescription = plainText(json?.['error_description'], secrets);
  const said = [error, errorDescription].filter(Boolean).join(': ') || 'no reason given';
  const later = status >= 500 || status === 429;
  return new OAuthError(
    later ? 'unreachable' : 'refused',
    `${endpoint} answered ${status} (${said})`,
    { endpoint, status, ...(error && { error }), ...(errorDescription && { errorDescription }) },
  );
}

function plainText(value: unknown, secrets: readonly string[]): string | undefined {
  if (typeof value !== 'string') return undefined;
  // oxlint-disable-next-line no-control-regex -- a server's words end up on a terminal
  return redact(value.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' '), secrets).slice(0, 300);
}
