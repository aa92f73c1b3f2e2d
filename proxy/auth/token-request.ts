import type { Clock, EpochSeconds } from '#clock/clock';
import { redact } from 'latchkey-mcp/safe-text';
import type { HttpClient } from '#transport/http-client';
import { authenticateClient, type OAuthClient } from './client-authentication.ts';
import { deviceParameters, type Device } from './device.ts';
import type { AuthorizationServer, Discovery } from './discovery.ts';
import { OAuthError } from './errors.ts';
import { fetchJson, type JsonAnswer } from './fetch-json.ts';
import type { TokenRecord } from './token-vault.ts';

/** The response of a token endpoint. RFC 6749 §5.1 */
export type GrantedToken = {
  accessToken: string;
  /** `undefined` if the server does not announce the lifetime. */
  expiresInSeconds?: number;
  scope?: string;
  refreshToken?: string;
  /** OpenID Connect Core 1.0 §3.1.3.3 */
  idToken?: string;
  /** RFC 8693 §2.2.1 */
  issuedTokenType?: string;
};

/** The facts about an authorization server that a token request needs. */
export type TokenServer = Pick<
  AuthorizationServer,
  'issuer' | 'tokenEndpoint' | 'tokenEndpointAuthMethods' | 'within'
>;

export const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

export type OAuthPorts = { http: HttpClient; clock: Clock };

/** Parameters that no message may quote. */
const secretParameters = ['code', 'code_verifier', 'refresh_token', 'subject_token', 'assertion'];

/**
 * Sends a request to a token endpoint, authenticated as `client`. Without a client, the grant itself identifies the caller.
 *
 * RFC 6749 §3.2, §5
 *
 * @throws {OAuthError}
 */
export async function tokenRequest(
  client: OAuthClient | undefined,
  server: TokenServer,
  grant: Record<string, string>,
  { http, clock }: OAuthPorts,
  tokenType = 'Bearer',
): Promise<GrantedToken> {
  const endpoint = server.tokenEndpoint;
  const proof = client
    ? await authenticateClient(client, server, clock.now())
    : { form: {}, headers: {} };
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
  const { client_assertion: clientAssertion = '' }: Record<string, string> = proof.form;
  const secrets = [
    client?.clientSecret ?? '',
    clientAssertion,
    ...secretParameters.map((name) => grant[name] ?? ''),
  ];
  return readToken(answer, { endpoint, tokenType, secrets });
}

function readToken(
  { status, json }: JsonAnswer,
  {
    endpoint,
    tokenType,
    secrets,
  }: { endpoint: string; tokenType: string; secrets: readonly string[] },
): GrantedToken {
  if (status !== 200) throw refusal(status, json, endpoint, secrets);
  const {
    access_token: accessToken,
    token_type: type,
    expires_in: seconds,
    scope,
    refresh_token: refreshToken,
    id_token: idToken,
    issued_token_type: issuedTokenType,
  } = json ?? {};
  if (typeof accessToken !== 'string' || !/^[\x21-\x7e]+$/.test(accessToken))
    throw new OAuthError('metadata', `${endpoint} answered without an access token`, {
      endpoint,
      status,
    });
  if (typeof type === 'string' && type.toLowerCase() !== tokenType.toLowerCase())
    throw new OAuthError(
      'metadata',
      `${endpoint} issues ${redact(type)} tokens instead of ${tokenType} tokens`,
      { endpoint, status },
    );
  const expiresInSeconds = lifetimeOf(seconds);
  return {
    accessToken,
    ...(expiresInSeconds !== undefined && { expiresInSeconds }),
    ...(typeof scope === 'string' && { scope }),
    ...(typeof refreshToken === 'string' && refreshToken !== '' && { refreshToken }),
    ...(typeof idToken === 'string' && { idToken }),
    ...(typeof issuedTokenType === 'string' && { issuedTokenType }),
  };
}

const maxLifetimeSeconds = 10 * 365 * 86_400;

/** Whole seconds, at least one and at most ten years. `undefined` if the server does not announce a lifetime. RFC 6749 §5.1 */
function lifetimeOf(expiresIn: unknown): number | undefined {
  const seconds = Number(expiresIn);
  if (!(seconds > 0)) return undefined;
  return Math.min(Math.max(1, Math.floor(seconds)), maxLifetimeSeconds);
}

/** The error for a response without a token or client: the server's reason, without the `secrets`. */
export function refusal(
  status: number,
  json: JsonAnswer['json'],
  endpoint: string,
  secrets: readonly string[],
): OAuthError {
  const error = plainText(json?.['error'], secrets);
  const errorDescription = plainText(json?.['error_description'], secrets);
  const reason = [error, errorDescription].filter(Boolean).join(': ') || 'no reason given';
  const later = status >= 500 || status === 429;
  // `invalid_target`: only one of the servers that share a sign-in is suspended.
  const mayBeSuspended = error === 'invalid_grant' || error === 'invalid_target';
  const isSuspended = mayBeSuspended && errorDescription?.startsWith('suspended: ');
  return new OAuthError(
    later ? 'unreachable' : isSuspended ? 'suspended' : 'refused',
    `${endpoint} answered ${status} (${reason})`,
    { endpoint, status, ...(error && { error }), ...(errorDescription && { errorDescription }) },
  );
}

function plainText(value: unknown, secrets: readonly string[]): string | undefined {
  if (typeof value !== 'string') return undefined;
  // oxlint-disable-next-line no-control-regex -- a server's words end up on a terminal
  return redact(value.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' '), secrets).slice(0, 300);
}

export type RedeemedCode = {
  client: OAuthClient;
  code: string;
  codeVerifier: string;
  redirectUri: string;
};

/**
 * Exchanges an authorization code for tokens. The caller has already checked the redirect that contained the code.
 *
 * RFC 6749 §4.1.3, RFC 7636 §4.5, RFC 8707 §2
 *
 * @throws {OAuthError}
 */
export async function authorizationCodeGrant(
  { client, code, codeVerifier, redirectUri }: RedeemedCode,
  discovery: Discovery,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri,
    code_verifier: codeVerifier,
    ...discovery.parameters,
  };
  return tokenRequest(client, discovery, form, ports);
}

/**
 * Requests an access token for the client itself. Without `scopes`, the server chooses the scopes.
 *
 * RFC 6749 §4.4, RFC 8707 §2
 *
 * @throws {OAuthError}
 */
export async function clientCredentialsGrant(
  { client, scopes = [] }: { client: OAuthClient; scopes?: readonly string[] | undefined },
  discovery: Discovery,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: 'client_credentials',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...discovery.parameters,
  };
  return tokenRequest(client, discovery, form, ports);
}

/**
 * Exchanges a refresh token for an access token and, if the server rotates refresh tokens, a new refresh token. Store both
 * before you use either: the old refresh token may already be invalid.
 *
 * RFC 6749 §6, RFC 8707 §2
 *
 * @throws {OAuthError} `refused` with `invalid_grant` if the refresh token is no longer valid
 */
export async function refreshTokenGrant(
  { client, refreshToken }: { client: OAuthClient; refreshToken: string },
  server: TokenServer & Pick<Discovery, 'parameters'>,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: 'refresh_token',
    refresh_token: refreshToken,
    ...server.parameters,
  };
  return tokenRequest(client, server, form, ports);
}

/**
 * Exchanges another issuer's assertion for an access token: the assertion of a company's provider about a person, or of a platform
 * about a workload. Without `client`, the assertion itself identifies the caller.
 *
 * RFC 7523 §2.1, RFC 8707 §2
 *
 * @throws {OAuthError}
 */
export async function jwtBearerGrant(
  {
    client,
    assertion,
    scopes = [],
    device,
  }: {
    client?: OAuthClient | undefined;
    assertion: string;
    scopes?: readonly string[] | undefined;
    /** This computer, for a Latchkey server. */
    device?: Device | undefined;
  },
  discovery: Discovery,
  ports: OAuthPorts,
): Promise<GrantedToken> {
  const form = {
    grant_type: jwtBearer,
    assertion,
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...(device && deviceParameters(device)),
    ...discovery.parameters,
  };
  return tokenRequest(client, discovery, form, ports);
}

export type RevokedToken = {
  client: OAuthClient;
  token: string;
  hint: 'access_token' | 'refresh_token';
};

/**
 * Revokes a token at its issuer.
 *
 * RFC 7009 §2.1
 *
 * @throws {OAuthError} also if the server has no revocation endpoint
 */
export async function revokeToken(
  { client, token, hint }: RevokedToken,
  discovery: TokenServer & Pick<AuthorizationServer, 'revocationEndpoint'>,
  { http, clock }: OAuthPorts,
): Promise<void> {
  const endpoint = discovery.revocationEndpoint;
  if (endpoint === undefined)
    throw new OAuthError('metadata', `${discovery.issuer} does not support revocation`, {
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

/** A token, and what a later renewal needs to know about its issuer. */
export type FetchedToken = Pick<
  TokenRecord,
  'accessToken' | 'obtainedAt' | 'expiresAt' | 'issuer' | 'published' | 'scope' | 'signedInAs'
>;

/** `known`: who signed in, and the requested scopes, which are used if the server returns none. */
export function tokenOf(
  { accessToken, expiresInSeconds, scope: granted }: GrantedToken,
  { issuer, published }: Discovery,
  obtainedAt: EpochSeconds,
  known: { scope?: string | undefined; signedInAs?: string | undefined } = {},
): FetchedToken {
  const scope = granted ?? known.scope;
  const { signedInAs } = known;
  return {
    accessToken,
    obtainedAt,
    ...(expiresInSeconds !== undefined && { expiresAt: obtainedAt + expiresInSeconds }),
    issuer,
    published,
    ...(scope !== undefined && { scope }),
    ...(signedInAs !== undefined && { signedInAs }),
  };
}
