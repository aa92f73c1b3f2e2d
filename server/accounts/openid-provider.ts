import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from 'jose';
import * as client from 'openid-client';

import type { EpochSeconds } from '#model/clock';
import { isGoogle } from '#model/issuers';
import type { ProviderChecking } from '#model/provider-checks';
import { type GuardedFetch, openIdFetch } from '#outbound/guarded-fetch';
import { type LogoutTokenReading, readLogoutToken } from './logout-token.ts';
import { isUnclearRefusal, type ProviderFault, providerFault } from './provider-faults.ts';
import { memberOf } from 'latchkey-mcp/json-value';

/** A person's identity as asserted by an upstream OpenID provider. */
export interface UpstreamIdentity {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  readonly emailProof: EmailProof;
  /** The names of their groups at the provider. */
  readonly groups: readonly string[];
  /** The domain of the organization at Google to which the account belongs. */
  readonly hostedDomain?: string | undefined;
  /** When the ID token was issued, by the clock of the provider. */
  readonly issuedAt: EpochSeconds;
  readonly authentication: Authentication;
  /** For checking the person again later; absent if that is turned off, or the provider issues none. */
  readonly refreshToken?: string | undefined;
}

/** How and when the person signed in at the provider. OpenID Connect Core §2, Back-Channel Logout §2.1 */
export interface Authentication {
  /** The session at the provider, as its logout tokens name it. */
  readonly providerSession?: string | undefined;
  readonly acr?: string | undefined;
  readonly amr: readonly string[];
  readonly authTime?: EpochSeconds | undefined;
}

/**
 * How an e-mail address is proved: the provider verified it (`verified`), does not say so but the operator trusts its addresses
 * (`trusted`), does not say so (`unsaid`), or denies it or sends a value that OpenID Connect Core §5.1 does not allow
 * (`unverified`).
 */
export type EmailProof = 'verified' | 'trusted' | 'unsaid' | 'unverified';

/** Values that tie a response to its request. Derived with a key of this server, so nothing is stored. */
export interface SignInChecks {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** An upstream OpenID provider: authorization code with PKCE, state and nonce. OpenID Connect Core §3.1 */
export interface IdentityProvider extends Omit<
  OpenIdOptions,
  'clientSecret' | 'redirectUri' | 'fetch'
> {
  /** Reads the configuration and the keys of the provider again. Never rejects. */
  check(): Promise<ProviderCheck>;

  /** The URL to send the browser to. Rejects when the provider cannot be reached. */
  begin(checks: SignInChecks): Promise<URL>;

  /**
   * The identity that the provider asserts. `callback` is the complete URL that the browser was redirected to. Rejects
   * unless every part of the response is valid.
   */
  finish(callback: URL, checks: SignInChecks): Promise<UpstreamIdentity>;

  /** Asks the provider with a refresh token whether it still knows the person. Never rejects. */
  ask(refreshToken: string, subject: string): Promise<PersonCheck>;

  /** Verifies a logout token, see `readLogoutToken`. Never rejects. */
  readLogout(token: string, now: EpochSeconds): Promise<LogoutTokenReading>;
}

/**
 * A provider's answer about a person. `removed`: it does not accept the refresh token any more, because the person was removed or
 * disabled, or their session there was ended. `refused`: it refuses the token without the error `invalid_grant`, although it
 * works and accepts our client. `failed`: it did not answer the question. RFC 6749 §5.2
 */
export type PersonCheck =
  | {
      readonly outcome: 'known';
      /** Replaces the refresh token that was used. */
      readonly refreshToken: string | undefined;
    }
  | { readonly outcome: 'removed' | 'refused'; readonly fault?: undefined }
  | { readonly outcome: 'failed'; readonly fault: ProviderFault };

/** Whether sign-ins can begin; if not, what could not be read, and why. */
export type ProviderCheck =
  | { readonly outcome: 'ready' }
  | {
      readonly outcome: 'failed';
      readonly what: 'configuration' | 'keys';
      readonly fault: ProviderFault;
    };

const timeoutSeconds = 10;
const mostGroups = 500;
const longestGroupName = 256;
const mostMethods = 20;

export interface OpenIdOptions {
  /** Identifies the provider of an organization; absent for the provider of the installation. */
  readonly id?: string | undefined;
  readonly issuer: string;
  /** This server's client id at the provider. */
  readonly clientId: string;
  readonly clientSecret: string;
  readonly name: string;
  /** The redirect URI registered at the provider, byte for byte. */
  readonly redirectUri: string;
  /** The claim that lists the groups of a person. */
  readonly groupsClaim: string;
  /** Scopes to request in addition to `openid email`; some providers send groups only if a scope requests them. */
  readonly scopes: readonly string[];
  /** Whether addresses without `email_verified` are trusted. Applies to this issuer only. */
  readonly trustsEmail: boolean;
  readonly checking: ProviderChecking;
  /** Requests the URLs of the provider. Absent if the operator chose the URLs, which may then be anywhere. */
  readonly fetch?: GuardedFetch | undefined;
}

/**
 * An OpenID provider. Discovery happens at the first sign-in, so that the server starts even if the provider is down. ID tokens are
 * verified against its keys. OpenID Connect Core §3.1, RFC 9700 §2.1.1
 */
export function openIdProvider(options: OpenIdOptions): IdentityProvider {
  const { id, issuer, name, clientId, groupsClaim, scopes, trustsEmail, checking } = options;
  let keys: { readonly url: string; readonly get: ReturnType<typeof publishedKeys> } | undefined;
  const discoverSeldom = pausedAfterFailure<client.Configuration>();
  let discovered: Promise<client.Configuration> | undefined;
  const configuration = () => {
    discovered ??= discover(options).catch((error: unknown) => {
      discovered = undefined;
      throw error;
    });
    return discovered;
  };
  return {
    id,
    name,
    issuer,
    clientId,
    groupsClaim,
    scopes,
    trustsEmail,
    checking,

    async check() {
      const found = await discover(options).catch(providerFault);
      if ('code' in found) return { outcome: 'failed', what: 'configuration', fault: found };
      const read = await readKeys(found.serverMetadata().jwks_uri ?? '', options.fetch, {
        headers: { accept: 'application/json' },
        signal: AbortSignal.timeout(timeoutSeconds * 1000),
      }).catch(providerFault);
      if ('code' in read) return { outcome: 'failed', what: 'keys', fault: read };
      // Sign-ins use the configuration that was just read.
      discovered = Promise.resolve(found);
      return { outcome: 'ready' };
    },

    async begin(checks) {
      const provider = await configuration();
      const request = await authorizationRequest(provider, options, checks);
      return provider.serverMetadata().require_pushed_authorization_requests === true
        ? client.buildAuthorizationUrlWithPAR(provider, request)
        : client.buildAuthorizationUrl(provider, request);
    },

    async finish(callback, { state, nonce, codeVerifier }) {
      const provider = await configuration();
      const tokens = await client.authorizationCodeGrant(provider, callback, {
        pkceCodeVerifier: codeVerifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      });
      return {
        ...(await identityOf(tokens, provider, options)),
        ...(wantsTokens(provider, checking) && { refreshToken: tokens.refresh_token }),
      };
    },

    ask: (refreshToken, subject) =>
      personCheck({ refreshToken, subject }, configuration, options.redirectUri),

    async readLogout(token, now) {
      const reading = discovered ?? discoverSeldom(now, configuration);
      const provider = await reading.catch(providerFault);
      if ('code' in provider) return { outcome: 'invalid', why: provider.detail };
      const metadata = provider.serverMetadata();
      const { jwks_uri: url = '', issuer: published } = metadata;
      if (keys?.url !== url) keys = { url, get: publishedKeys(url, options.fetch) };
      return readLogoutToken(token, {
        issuer: published,
        clientId,
        algorithms: metadata.id_token_signing_alg_values_supported ?? ['RS256'],
        keys: keys.get(now),
        now,
      });
    },
  };
}

async function authorizationRequest(
  provider: client.Configuration,
  { issuer, redirectUri, scopes, checking }: OpenIdOptions,
  { state, nonce, codeVerifier }: SignInChecks,
): Promise<Record<string, string>> {
  const wanted = new Set(['openid', 'email', ...scopes, ...moreScopes(provider, checking)]);
  // Google has no scope for offline access. https://developers.google.com/identity/openid-connect/openid-connect
  const isOffline = isGoogle(new URL(issuer)) && wantsTokens(provider, checking);
  return {
    redirect_uri: redirectUri,
    scope: [...wanted].join(' '),
    state,
    nonce,
    code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
    ...(isOffline && { access_type: 'offline' }),
  };
}

/** The identity in the tokens of a sign-in. Claims that the ID token lacks are requested from the userinfo endpoint. */
async function identityOf(
  tokens: Awaited<ReturnType<typeof client.authorizationCodeGrant>>,
  provider: client.Configuration,
  { groupsClaim, trustsEmail }: OpenIdOptions,
): Promise<UpstreamIdentity> {
  const claims = tokens.claims();
  if (!claims) throw new Error('the provider sent no ID token');
  const { issuer: published, userinfo_endpoint: userinfo } = provider.serverMetadata();
  const lacksClaim = ['email', 'email_verified', groupsClaim].some(
    (claim) => claims[claim] === undefined,
  );
  const more: Claims =
    lacksClaim && userinfo !== undefined
      ? await client.fetchUserInfo(provider, tokens.access_token, claims.sub)
      : {};
  // A provider with several tenants publishes a pattern as its issuer, and each ID token names its own tenant.
  const isTrusted = trustsEmail && claims.iss === published;
  return assertedIdentity(claims, more, { groupsClaim, isTrusted });
}

/** Whether refresh tokens are wanted, to check people again. */
function wantsTokens(provider: client.Configuration, { checkAgain }: ProviderChecking): boolean {
  const announces = provider.serverMetadata()['backchannel_logout_supported'] === true;
  return checkAgain === 'always' || (checkAgain === 'auto' && !announces);
}

/** The scope that asks for refresh tokens, where the provider has it. OpenID Connect Core §11 */
function moreScopes(provider: client.Configuration, checking: ProviderChecking): string[] {
  const known = provider.serverMetadata().scopes_supported ?? [];
  const isKnown = wantsTokens(provider, checking) && known.includes('offline_access');
  return isKnown ? ['offline_access'] : [];
}

async function personCheck(
  { refreshToken, subject }: { readonly refreshToken: string; readonly subject: string },
  configuration: () => Promise<client.Configuration>,
  redirectUri: string,
): Promise<PersonCheck> {
  try {
    const tokens = await client.refreshTokenGrant(await configuration(), refreshToken);
    const named = tokens.claims()?.sub;
    if (named !== undefined && named !== subject) throw new Error('tokens of someone else');
    return { outcome: 'known', refreshToken: tokens.refresh_token };
  } catch (error) {
    const isRefused = error instanceof client.ResponseBodyError;
    if (isRefused && error.error === 'invalid_grant') return { outcome: 'removed' };
    const isUnclear = isUnclearRefusal(error) && (await isAcceptedAt(configuration, redirectUri));
    return isUnclear ? { outcome: 'refused' } : { outcome: 'failed', fault: providerFault(error) };
  }
}

/**
 * Whether the token endpoint works and accepts our client: it refuses a code that no one was given, but not the client that presents it.
 * Never rejects. Glewlwyd answers `invalid_code`.
 */
async function isAcceptedAt(
  configuration: () => Promise<client.Configuration>,
  redirectUri: string,
): Promise<boolean> {
  const asked = {
    code: client.randomState(),
    redirect_uri: redirectUri,
    code_verifier: client.randomPKCECodeVerifier(),
  };
  try {
    await client.genericGrantRequest(await configuration(), 'authorization_code', asked);
    return false;
  } catch (error) {
    const code = error instanceof client.ResponseBodyError ? error.error : '';
    return code === 'invalid_grant' || code === 'invalid_code';
  }
}

/** For how long after a failure logout tokens cause no request to the provider, because anyone can send them. */
const failurePauseSeconds = 30;

/** Returns a function that runs `act` but, for thirty seconds after a failure, rejects with the same error instead. */
function pausedAfterFailure<Answer>() {
  let failure: { readonly error: unknown; readonly at: EpochSeconds } | undefined;
  return async (now: EpochSeconds, act: () => Promise<Answer>): Promise<Answer> => {
    if (failure && failure.at > now - failurePauseSeconds) throw failure.error;
    try {
      return await act();
    } catch (error) {
      failure = { error, at: now };
      throw error;
    }
  };
}

/**
 * The keys that a provider publishes, for use at the time `now`. They are read again, at most every thirty seconds, if a signature names
 * an unknown key, or if they could not be read.
 */
function publishedKeys(
  url: string,
  guarded: GuardedFetch | undefined,
): (now: EpochSeconds) => JWTVerifyGetKey {
  const readSeldom = pausedAfterFailure<unknown>();
  let askedAt: EpochSeconds = 0;
  const get = createRemoteJWKSet(new URL(url), {
    timeoutDuration: timeoutSeconds * 1000,
    async [customFetch](asked, { headers, signal }) {
      const document = await readSeldom(askedAt, async () => {
        const read = await readKeys(asked, guarded, {
          headers: Object.fromEntries(headers),
          signal,
        });
        if ('code' in read) throw new Error(`the keys cannot be read: ${read.detail}`);
        return read;
      });
      return Response.json(document);
    },
  });
  return (now) => (header, token) => {
    askedAt = now;
    return get(header, token);
  };
}

type Claims = Readonly<Record<string, unknown>>;

/**
 * The identity that a verified ID token or assertion contains, with what the userinfo endpoint added. Addresses without
 * `email_verified` are trusted if `isTrusted`.
 */
export function assertedIdentity(
  claims: Claims & { readonly iss: string; readonly sub: string; readonly iat: number },
  userInfo: Claims,
  { groupsClaim, isTrusted }: { readonly groupsClaim: string; readonly isTrusted: boolean },
): UpstreamIdentity {
  return {
    issuer: claims.iss,
    subject: claims.sub,
    ...emailOf(claims, userInfo, isTrusted),
    groups: groupNames(claims[groupsClaim] ?? userInfo[groupsClaim]),
    hostedDomain: shortText(claims['hd']),
    issuedAt: claims.iat,
    authentication: authenticationOf(claims),
  };
}

/** The address of a person. `email_verified` is about the address that comes with it, not about one from elsewhere. */
function emailOf(
  idToken: Claims,
  userInfo: Claims,
  isTrusted: boolean,
): Pick<UpstreamIdentity, 'email' | 'emailProof'> {
  const isComplete = idToken['email'] !== undefined && idToken['email_verified'] !== undefined;
  const source = isComplete || userInfo['email'] === undefined ? idToken : userInfo;
  const other = source === idToken ? userInfo : idToken;
  const isSame = other['email'] === undefined || other['email'] === source['email'];
  const said = (isSame ? [source, other] : [source])
    .map((claims) => claims['email_verified'])
    .filter((verified) => verified !== undefined);
  const { email } = source;
  return { email: typeof email === 'string' ? email : undefined, emailProof: proofOf() };

  function proofOf(): EmailProof {
    if (said.length === 0) return isTrusted ? 'trusted' : 'unsaid';
    return said.every((verified) => verified === true) ? 'verified' : 'unverified';
  }
}

/** Parses the groups claim, which providers send in different forms. Without the claim there are no groups. */
function groupNames(claim: unknown): readonly string[] {
  const names: unknown[] = Array.isArray(claim) ? claim : [claim];
  return names
    .filter((name): name is string => typeof name === 'string' && name !== '')
    .filter(({ length }) => length <= longestGroupName)
    .slice(0, mostGroups);
}

/** Claims about the sign-in itself. Only the claims of the ID token count, because the provider signs it for this sign-in. */
function authenticationOf(claims: Claims): Authentication {
  const { sid, acr, amr, auth_time: authTime } = claims;
  return {
    providerSession: shortText(sid),
    acr: shortText(acr),
    amr: groupNames(amr).slice(0, mostMethods),
    authTime: typeof authTime === 'number' ? Math.floor(authTime) : undefined,
  };
}

function shortText(claim: unknown): string | undefined {
  return typeof claim === 'string' && claim.length <= longestGroupName ? claim : undefined;
}

/** The keys that a provider publishes, or what is wrong with them. RFC 7517 §5 */
async function readKeys(
  url: string,
  guarded: GuardedFetch | undefined,
  asked: { readonly headers: Readonly<Record<string, string>>; readonly signal: AbortSignal },
): Promise<{ readonly keys: readonly object[] } | ProviderFault> {
  const answer = guarded
    ? await guarded(url, asked)
    : await fetch(url, { ...asked, redirect: 'manual' });
  if (!answer.ok) return { code: 'not-openid', detail: `HTTP ${answer.status}` };
  const keys = memberOf(await answer.json(), 'keys');
  const objects = Array.isArray(keys) ? keys.filter(isObject) : [];
  return objects.length > 0 ? { keys: objects } : { code: 'not-openid', detail: 'no keys' };
}

const isObject = (value: unknown) => typeof value === 'object' && value !== null;

async function discover(options: OpenIdOptions): Promise<client.Configuration> {
  const { issuer, clientId, clientSecret, fetch: guarded } = options;
  const isPlain = issuer.startsWith('http:');
  return client.discovery(new URL(issuer), clientId, clientSecret, undefined, {
    timeout: timeoutSeconds,
    ...(guarded && { [client.customFetch]: openIdFetch(guarded) }),
    execute: [
      // Verifies the signature of the ID token too, instead of relying on TLS alone.
      client.enableNonRepudiationChecks,
      ...(isPlain ? [client.allowInsecureRequests] : []),
    ],
  });
}
