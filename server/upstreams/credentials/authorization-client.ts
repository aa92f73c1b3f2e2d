// This server as an OAuth client of an upstream's authorization server.
import * as openid from 'openid-client';
import { z } from 'zod';
import type { UpstreamAccess } from '#db/upstream-access';
import type { Clock, EpochSeconds } from '#model/clock';
import type { ServerRecord } from '#model/endpoints';
import { outboundErrorIn, type OutboundGuard } from '#outbound/checked-addresses';
import { guardedFetch, openIdFetch, type GuardedFetch } from '#outbound/guarded-fetch';
import type { Db } from '#db/transaction';
import { issueChallenge, spendChallenge, type ChallengePorts } from '#accounts/challenges';
import type { Sealing } from '#secrets/master-key';
import { secretPurpose, UpstreamAccessError } from './access.ts';

/** The tokens that an upstream's authorization server issued to this server, as they are stored. */
export const tokensSchema = z.strictObject({
  accessToken: z.string(),
  refreshToken: z.string().optional(),
  /** When to renew the access token, ahead of its expiry. */
  renewAt: z.number().optional(),
  /** `undefined` when the authorization server did not say. */
  expiresAt: z.number().optional(),
});

export type UpstreamTokens = Readonly<z.infer<typeof tokensSchema>>;

/** An access token is renewed this long before it expires, or later if it is short-lived. */
const marginSeconds = 60;

/** When to renew a token with this lifetime. A short-lived token is not renewed at every call. */
export function timesOf(
  lifetimeSeconds: number | undefined,
  now: EpochSeconds,
): Pick<UpstreamTokens, 'renewAt' | 'expiresAt'> {
  if (lifetimeSeconds === undefined) return {};
  const margin = Math.min(marginSeconds, Math.ceil(lifetimeSeconds / 4));
  return { renewAt: now + lifetimeSeconds - margin, expiresAt: now + lifetimeSeconds };
}

const limits = { timeoutMs: 10_000, maxBytes: 256 * 1024 };

type ServerName = Pick<ServerRecord, 'organization' | 'name'>;

/** The path of the page where a person connects their account at a server's upstream. */
export function accountPath(server: ServerName): string {
  return `/dashboard/${server.organization}/servers/${server.name}/account`;
}

/** The redirect URI for an upstream's authorization server. Every MCP server has its own. */
export function redirectUriOf(base: string, server: ServerName): string {
  return `${base}${accountPath(server)}/callback`;
}

/**
 * The client metadata document at `/oauth/clients/upstream/{organization}/{server}`, which describes this server as a client of
 * one upstream's authorization server. It depends only on the path, so that it does not reveal which servers exist.
 *
 * draft-ietf-oauth-client-id-metadata-document §4
 */
export function upstreamClientDocument(base: string, server: ServerName) {
  return {
    client_id: `${base}/oauth/clients/upstream/${server.organization}/${server.name}`,
    client_name: 'Latchkey',
    client_uri: base,
    redirect_uris: [redirectUriOf(base, server)],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}

/** The fetch for requests to authorization servers. `vouchedHosts` may be in a private network. */
export function accessFetch(guard: OutboundGuard, vouchedHosts: readonly string[]): GuardedFetch {
  return (url, asked) => {
    // The operator may have changed the list since.
    const allowedHosts = [...guard.allowedHosts, ...vouchedHosts];
    return guardedFetch({ ...limits, ...guard, allowedHosts })(url, asked);
  };
}

/** Returns a function that creates the client for an `UpstreamAccess`. */
export function clientsOf({
  sealing,
  guard,
  clock,
}: {
  readonly sealing: Pick<Sealing, 'open'>;
  readonly guard: OutboundGuard;
  readonly clock: Clock;
}) {
  return (access: UpstreamAccess): AuthorizationClient => {
    const { sealedClientSecret: sealed } = access;
    const secret = sealed === undefined ? undefined : sealing.open(secretPurpose(access), sealed);
    const fetch = accessFetch(guard, access.vouchedHosts);
    return authorizationClient(access, secret, { fetch, clock });
  };
}

/** Proves that an authorization response belongs to the authorization request that this browser made. */
export interface ConnectChecks {
  readonly state: string;
  readonly codeVerifier: string;
}

/**
 * Sends requests to an upstream's authorization server. Each contains the resource (RFC 8707) unless an administrator chose to
 * omit it. An authorization response is checked against `state`, PKCE and, if announced or present, `iss` (RFC 9207).
 *
 * All methods reject with `UpstreamAccessError`.
 */
export interface AuthorizationClient {
  authorizationUrl(checks: ConnectChecks, redirectUri: string): Promise<URL>;
  /** `callback` is the complete URL that the browser came back to. */
  redeem(callback: URL, checks: ConnectChecks): Promise<UpstreamTokens>;
  refresh(refreshToken: string): Promise<UpstreamTokens>;
  /** Requests a token for the server itself: client credentials. */
  own(): Promise<UpstreamTokens>;
  /** Revokes the tokens, if the authorization server supports that. RFC 7009 */
  revoke(tokens: UpstreamTokens): Promise<void>;
}

export function authorizationClient(
  access: Pick<UpstreamAccess, 'metadata' | 'clientId' | 'resource' | 'scopes'>,
  clientSecret: string | undefined,
  { fetch: guarded, clock }: { fetch: GuardedFetch; clock: Clock },
): AuthorizationClient {
  const { metadata, clientId, resource, scopes } = access;
  const { issuer, revocation_endpoint: revocationEndpoint } = metadata;
  const config = new openid.Configuration(
    known(metadata),
    clientId,
    {},
    authentication(metadata, clientSecret),
  );
  config[openid.customFetch] = openIdFetch(guarded);
  if (issuer.startsWith('http:')) openid.allowInsecureRequests(config);
  const resourceParameter = resource === undefined ? {} : { resource };
  const target = { ...resourceParameter, ...(scopes.length > 0 && { scope: scopes.join(' ') }) };
  const tokensFrom = async (
    request: Promise<openid.TokenEndpointResponse>,
  ): Promise<UpstreamTokens> => {
    const now = clock.now();
    const {
      access_token: accessToken,
      refresh_token: refreshToken,
      expires_in: lifetimeSeconds,
      ...rest
    } = await translateErrors(request, issuer);
    // The token becomes part of a header, so only the characters of RFC 6750 §2.1 are accepted. DPoP tokens are not supported.
    if (rest.token_type.toLowerCase() !== 'bearer' || !/^[\w.~+/=-]{1,16384}$/.test(accessToken)) {
      throw new UpstreamAccessError('unusable', `${issuer} did not return a bearer token`);
    }
    return { accessToken, refreshToken, ...timesOf(lifetimeSeconds, now) };
  };
  return {
    async authorizationUrl({ state, codeVerifier }, redirectUri) {
      const request = {
        ...target,
        redirect_uri: redirectUri,
        state,
        code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
        // Without consent, the authorization server ignores `offline_access`. OpenID Connect Core §11
        ...(scopes.includes('offline_access') && { prompt: 'consent' }),
      };
      if (metadata.require_pushed_authorization_requests !== true) {
        return openid.buildAuthorizationUrl(config, request);
      }
      return translateErrors(openid.buildAuthorizationUrlWithPAR(config, request), issuer);
    },
    redeem: (callback, { state, codeVerifier }) =>
      tokensFrom(
        openid.authorizationCodeGrant(
          config,
          callback,
          { expectedState: state, pkceCodeVerifier: codeVerifier },
          resourceParameter,
        ),
      ),
    async refresh(refreshToken) {
      const tokens = await tokensFrom(
        openid.refreshTokenGrant(config, refreshToken, resourceParameter),
      );
      // A server that does not rotate refresh tokens sends no new one, and the old one stays valid. RFC 6749 §6
      return { ...tokens, refreshToken: tokens.refreshToken ?? refreshToken };
    },
    own: () => tokensFrom(openid.clientCredentialsGrant(config, target)),
    async revoke({ refreshToken, accessToken }) {
      if (revocationEndpoint === undefined) return;
      const revoke = (token: string, hint: string) =>
        translateErrors(openid.tokenRevocation(config, token, { token_type_hint: hint }), issuer);
      if (refreshToken !== undefined) await revoke(refreshToken, 'refresh_token');
      // The server may be unable to revoke a self-contained access token, which then expires instead. RFC 7009 §2.2.1
      await revoke(accessToken, 'access_token').catch((error: unknown) => {
        if (!(error instanceof UpstreamAccessError) || error.code !== 'refused') throw error;
      });
    },
  };
}

/** The metadata without undefined members, which the library does not accept. */
function known(metadata: UpstreamAccess['metadata']): openid.ServerMetadata {
  const entries = Object.entries(metadata).filter(([, value]) => value !== undefined);
  return { issuer: metadata.issuer, ...Object.fromEntries(entries) };
}

function authentication(
  { token_endpoint_auth_methods_supported: methods }: UpstreamAccess['metadata'],
  secret: string | undefined,
): openid.ClientAuth {
  if (secret === undefined) return openid.None();
  // A server that names no method supports Basic. RFC 8414 §2
  const isBasic = methods === undefined || methods.includes('client_secret_basic');
  return isBasic ? openid.ClientSecretBasic(secret) : openid.ClientSecretPost(secret);
}

/** Converts errors of the library, which contain responses and possibly tokens, into `UpstreamAccessError`. */
async function translateErrors<Answer>(request: Promise<Answer>, issuer: string): Promise<Answer> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof UpstreamAccessError) throw error;
    if (error instanceof openid.AuthorizationResponseError) {
      const errorCode = safeCode(error.error);
      if (errorCode === 'invalid_target') throw noSuchResource(issuer);
      const code = errorCode === 'access_denied' ? 'denied' : 'refused';
      throw new UpstreamAccessError(code, `${issuer} returned ${errorCode}`);
    }
    if (error instanceof openid.ResponseBodyError) {
      if (error.error === 'invalid_target') throw noSuchResource(issuer);
      throw new UpstreamAccessError(
        refusalCode(error.error, error.status),
        `${issuer} returned ${safeCode(error.error)}`,
      );
    }
    if (error instanceof openid.WWWAuthenticateChallengeError) {
      throw new UpstreamAccessError('refused', `${issuer} refused this client ID or its secret`);
    }
    const outbound = outboundErrorIn(error);
    if (outbound?.code === 'forbidden') {
      throw new UpstreamAccessError('forbidden', outbound.message);
    }
    if (outbound) throw new UpstreamAccessError('unreachable', `${issuer} cannot be reached`);
    const what = error instanceof openid.ClientError ? safeCode(error.code ?? '') : 'unreadable';
    // A server error is rarely JSON; a malformed answer is a problem that the administrator must see.
    const code = what === 'OAUTH_RESPONSE_IS_NOT_CONFORM' ? 'unreachable' : 'unusable';
    throw new UpstreamAccessError(code, `${issuer} returned an unusable response: ${what}`);
  }
}

/** RFC 8707 §2 */
function noSuchResource(issuer: string): UpstreamAccessError {
  const message = `${issuer} returned invalid_target: it issues no token for the resource of this upstream. Register the upstream there, or request tokens without a resource (server set-access --omit-resource, or on the Upstream authentication page)`;
  return new UpstreamAccessError('unusable', message);
}

function refusalCode(error: string, status: number): UpstreamAccessError['code'] {
  // A server error does not mean that the tokens are invalid.
  if (status >= 500 || status === 429) return 'unreachable';
  return error === 'invalid_grant' ? 'ended' : 'refused';
}

/** An error code with the characters of RFC 6749 §5.2; anything else is not repeated. */
function safeCode(text: string): string {
  return /^[A-Za-z_-]{1,60}$/.test(text) ? text : 'an error';
}

/** A person who connects an account, in the browser where they are signed in. */
export interface Connecting {
  readonly access: Pick<UpstreamAccess, 'id' | 'targetId'>;
  readonly userId: string;
  /** The token of the browser's session. Another session cannot finish connecting. */
  readonly sessionToken: string;
}

/**
 * Returns the URL where a person consents to connecting their account. The state is a challenge for this access, person
 * and session; the code verifier is derived from it with a key of this server, so nothing is stored. Every
 * server has its own redirect URI, so that a response of one authorization server is not mistaken for another's.
 *
 * RFC 9700 §2.1, §4.4.2.2
 */
export async function beginConnecting(
  connecting: Connecting,
  redirectUri: string,
  { client, ...ports }: ChallengePorts & { client: AuthorizationClient },
): Promise<URL> {
  const state = issueChallenge(purposeOf(connecting), connecting.sessionToken, ports);
  return client.authorizationUrl(checksOf(state, ports), redirectUri);
}

/**
 * Redeems the authorization response at the URL that the browser came back to.
 *
 * @throws {UpstreamAccessError} `refused` unless this session began connecting and the state is unused and has not expired;
 * errors of the authorization server
 */
export async function finishConnecting(
  connecting: Connecting,
  callback: URL,
  { client, ...ports }: ChallengePorts & { client: AuthorizationClient; db: Db },
): Promise<UpstreamTokens> {
  const state = callback.searchParams.get('state') ?? '';
  const { sessionToken: cookieToken } = connecting;
  const spent = { challenge: state, purpose: purposeOf(connecting), cookieToken };
  if (!(await spendChallenge(spent, ports))) {
    throw new UpstreamAccessError(
      'refused',
      'this response belongs to another sign-in, was already used, or has expired',
    );
  }
  return client.redeem(callback, checksOf(state, ports));
}

function purposeOf({ access, userId }: Connecting): string {
  return `upstream ${access.targetId} ${access.id} ${userId}`;
}

function checksOf(state: string, { sealing }: Pick<ChallengePorts, 'sealing'>): ConnectChecks {
  return { state, codeVerifier: sealing.mac('upstream code verifier', state) };
}
