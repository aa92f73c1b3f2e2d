import * as client from 'openid-client';

import type { Clock } from '#clock/clock';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import { OutboundError } from '#outbound/outbound-error';
import type { UpstreamAccess } from './upstream-access.ts';
import { UpstreamAccessError } from './upstream-access-error.ts';
import { timesOf, type UpstreamTokens } from './upstream-tokens.ts';

/** What proves that an answer belongs to the request that this browser was sent away with. */
export interface ConnectChecks {
  readonly state: string;
  readonly codeVerifier: string;
}

/**
 * We as a client of an upstream's authorization server. Every request names the resource (RFC 8707), where it is not
 * left out on purpose; an answer by
 * browser is held against `state`, PKCE and, where it is promised or there, `iss` (RFC 9207).
 *
 * Everything rejects with `UpstreamAccessError`.
 */
export interface AuthorizationClient {
  authorizationUrl(checks: ConnectChecks, redirectUri: string): Promise<URL>;
  /** `callback` is the URL that the browser came back to, all of it. */
  redeem(callback: URL, checks: ConnectChecks): Promise<UpstreamTokens>;
  refresh(refreshToken: string): Promise<UpstreamTokens>;
  /** A token for ourselves: client credentials. */
  own(): Promise<UpstreamTokens>;
  /** Tells the server that nobody will use these any more, where it can be told. RFC 7009 */
  revoke(tokens: UpstreamTokens): Promise<void>;
}

export function authorizationClient(
  access: Pick<UpstreamAccess, 'metadata' | 'clientId' | 'resource' | 'scopes'>,
  clientSecret: string | undefined,
  { ask, clock }: { ask: GuardedFetch; clock: Clock },
): AuthorizationClient {
  const { metadata, clientId, resource, scopes } = access;
  const { issuer, revocation_endpoint: revocationEndpoint } = metadata;
  const config = new client.Configuration(
    known(metadata),
    clientId,
    {},
    authentication(metadata, clientSecret),
  );
  config[client.customFetch] = async (url, { method, headers, body }) =>
    ask(url, { method, headers, body: bodyText(body) });
  if (issuer.startsWith('http:')) client.allowInsecureRequests(config);
  const named = resource === undefined ? {} : { resource };
  const target = { ...named, ...(scopes.length > 0 && { scope: scopes.join(' ') }) };
  const given = async (asking: Promise<client.TokenEndpointResponse>): Promise<UpstreamTokens> => {
    const now = clock.now();
    const {
      access_token: accessToken,
      refresh_token: refreshToken,
      expires_in: life,
      ...rest
    } = await asked(asking, issuer);
    // It becomes a header: nothing else than what RFC 6750 §2.1 lets it be, and no DPoP.
    if (rest.token_type.toLowerCase() !== 'bearer' || !/^[\w.~+/=-]{1,16384}$/.test(accessToken)) {
      throw new UpstreamAccessError('unusable', `${issuer} gives no bearer token`);
    }
    return { accessToken, refreshToken, ...timesOf(life, now) };
  };
  return {
    async authorizationUrl({ state, codeVerifier }, redirectUri) {
      return client.buildAuthorizationUrl(config, {
        ...target,
        redirect_uri: redirectUri,
        state,
        code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
        // OpenID Connect Core §11: without it no refresh token follows.
        ...(scopes.includes('offline_access') && { prompt: 'consent' }),
      });
    },
    redeem: (callback, { state, codeVerifier }) =>
      given(
        client.authorizationCodeGrant(
          config,
          callback,
          { expectedState: state, pkceCodeVerifier: codeVerifier },
          named,
        ),
      ),
    async refresh(refreshToken) {
      const tokens = await given(client.refreshTokenGrant(config, refreshToken, named));
      // A server that does not rotate sends none: the old one goes on counting. RFC 6749 §6
      return { ...tokens, refreshToken: tokens.refreshToken ?? refreshToken };
    },
    own: () => given(client.clientCredentialsGrant(config, target)),
    async revoke({ refreshToken, accessToken }) {
      if (revocationEndpoint === undefined) return;
      const revoke = (token: string, hint: string) =>
        asked(client.tokenRevocation(config, token, { token_type_hint: hint }), issuer);
      if (refreshToken !== undefined) await revoke(refreshToken, 'refresh_token');
      // One that is checked without being looked up cannot be revoked, and ends by itself. RFC 7009 §2.2.1
      await revoke(accessToken, 'access_token').catch((error: unknown) => {
        if (!(error instanceof UpstreamAccessError) || error.code !== 'refused') throw error;
      });
    },
  };
}

/** The metadata without members that are not there, as the library wants it. */
function known(metadata: UpstreamAccess['metadata']): client.ServerMetadata {
  const entries = Object.entries(metadata).filter(([, value]) => value !== undefined);
  return { issuer: metadata.issuer, ...Object.fromEntries(entries) };
}

function authentication(
  { token_endpoint_auth_methods_supported: methods }: UpstreamAccess['metadata'],
  secret: string | undefined,
): client.ClientAuth {
  if (secret === undefined) return client.None();
  // Basic is what a server has that names none. RFC 8414 §2
  const isBasic = methods === undefined || methods.includes('client_secret_basic');
  return isBasic ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret);
}

function bodyText(body: unknown): string | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === 'string') return body;
  if (body instanceof URLSearchParams) return body.toString();
  throw new TypeError('no request of ours has such a body');
}

/** Puts what went wrong into our own words: the library's errors carry the answers, which may hold tokens. */
async function asked<Answer>(asking: Promise<Answer>, issuer: string): Promise<Answer> {
  try {
    return await asking;
  } catch (error) {
    if (error instanceof UpstreamAccessError) throw error;
    if (error instanceof client.AuthorizationResponseError) {
      const said = safeCode(error.error);
      if (said === 'invalid_target') throw noSuchResource(issuer);
      const code = said === 'access_denied' ? 'denied' : 'refused';
      throw new UpstreamAccessError(code, `${issuer} answers ${said}`);
    }
    if (error instanceof client.ResponseBodyError) {
      if (error.error === 'invalid_target') throw noSuchResource(issuer);
      throw new UpstreamAccessError(
        refusalCode(error.error, error.status),
        `${issuer} answers ${safeCode(error.error)}`,
      );
    }
    if (error instanceof client.WWWAuthenticateChallengeError) {
      throw new UpstreamAccessError('refused', `${issuer} refuses this client id or its secret`);
    }
    const outbound = outboundIn(error);
    if (outbound?.code === 'forbidden') {
      throw new UpstreamAccessError('forbidden', outbound.message);
    }
    if (outbound) throw new UpstreamAccessError('unreachable', `${issuer} cannot be asked`);
    const what = error instanceof client.ClientError ? safeCode(error.code ?? '') : 'unreadable';
    // An answer with a server error is no JSON mostly; a wrong one is for the person who set this up to see.
    const code = what === 'OAUTH_RESPONSE_IS_NOT_CONFORM' ? 'unreachable' : 'unusable';
    throw new UpstreamAccessError(code, `${issuer} gives no answer that can be used: ${what}`);
  }
}

/** RFC 8707 §2 */
function noSuchResource(issuer: string): UpstreamAccessError {
  const words = `${issuer} answers invalid_target: it gives no token for the resource that the upstream calls itself. Have the upstream registered there, or let an administrator leave the resource out (server set-access --omit-resource, or on its Authorization page)`;
  return new UpstreamAccessError('unusable', words);
}

function refusalCode(error: string, status: number): UpstreamAccessError['code'] {
  // What is the server's own trouble says nothing of our tokens.
  if (status >= 500 || status === 429) return 'unreachable';
  return error === 'invalid_grant' ? 'ended' : 'refused';
}

/** An error code as RFC 6749 §5.2 spells them; anything else is not repeated. */
function safeCode(text: string): string {
  return /^[A-Za-z_-]{1,60}$/.test(text) ? text : 'an error';
}

function outboundIn(error: unknown): OutboundError | undefined {
  let at = error;
  for (let depth = 0; depth < 5 && at instanceof Error; depth += 1) {
    if (at instanceof OutboundError) return at;
    at = at.cause;
  }
  return undefined;
}
