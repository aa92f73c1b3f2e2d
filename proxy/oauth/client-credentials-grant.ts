import type { HttpClient } from '#http/http-client';
import { redact } from '#log/redact';
import type { Discovery } from './discover.ts';
import { fetchJson, type JsonAnswer } from './fetch-json.ts';
import { OAuthError } from './oauth-error.ts';

export type OAuthClient = { clientId: string; clientSecret: string; scopes?: readonly string[] };

/** What a token endpoint hands out. RFC 6749 §5.1 */
export type GrantedToken = {
  accessToken: string;
  /** `undefined` when the server does not say how long it lives. */
  expiresInSeconds?: number;
  scope?: string;
};

/**
 * Asks for an access token as the client itself. The secret goes where the server said it wants it.
 *
 * RFC 6749 §4.4, §2.3.1; RFC 8707 §2
 *
 * @throws {OAuthError}
 */
export async function clientCredentialsGrant(
  client: OAuthClient,
  { tokenEndpoint, tokenEndpointAuthMethods, resource }: Discovery,
  http: HttpClient,
): Promise<GrantedToken> {
  const { clientId, clientSecret, scopes } = client;
  const form = new URLSearchParams({ grant_type: 'client_credentials' });
  if (scopes?.length) form.set('scope', scopes.join(' '));
  form.set('resource', resource);
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    accept: 'application/json',
  };
  if (tokenEndpointAuthMethods.includes('client_secret_basic'))
    headers['authorization'] = basic(clientId, clientSecret);
  else if (tokenEndpointAuthMethods.includes('client_secret_post')) {
    form.set('client_id', clientId);
    form.set('client_secret', clientSecret);
  } else
    throw new OAuthError('metadata', `${tokenEndpoint} takes no client secret`, {
      endpoint: tokenEndpoint,
    });
  const answer = await fetchJson(http, {
    url: new URL(tokenEndpoint),
    method: 'POST',
    headers,
    body: Buffer.from(form.toString()),
  });
  return readToken(answer, tokenEndpoint, clientSecret);
}

function readToken({ status, json }: JsonAnswer, endpoint: string, secret: string): GrantedToken {
  if (status !== 200) throw refusal(status, json, endpoint, secret);
  const { access_token: accessToken, token_type: type, expires_in: seconds, scope } = json ?? {};
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
  };
}

function refusal(
  status: number,
  json: JsonAnswer['json'],
  endpoint: string,
  secret: string,
): OAuthError {
  const error = plainText(json?.['error'], secret);
  const errorDescription = plainText(json?.['error_description'], secret);
  const said = [error, errorDescription].filter(Boolean).join(': ') || 'no reason given';
  const later = status >= 500 || status === 429;
  return new OAuthError(
    later ? 'unreachable' : 'refused',
    `${endpoint} answered ${status} (${said})`,
    { endpoint, status, ...(error && { error }), ...(errorDescription && { errorDescription }) },
  );
}

function plainText(value: unknown, secret: string): string | undefined {
  if (typeof value !== 'string') return undefined;
  // oxlint-disable-next-line no-control-regex -- a server's words end up on a terminal
  return redact(value.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' '), [secret]).slice(0, 300);
}

function basic(clientId: string, clientSecret: string): string {
  const encode = (text: string) => new URLSearchParams({ '': text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encode(clientId)}:${encode(clientSecret)}`).toString('base64')}`;
}
