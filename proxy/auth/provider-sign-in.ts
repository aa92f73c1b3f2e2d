// The person's sign-in at the identity provider of the company. All connections that name the provider share it: one entry of the
// keychain, which one process at a time renews.
import { randomBytes } from 'node:crypto';
import { membersOf, parseObject, type JsonObject } from 'latchkey-mcp/json-value';
import type { EpochSeconds } from '#clock/clock';
import type { IdentityProvider } from '#config/identity-provider';
import { providerAccount } from '#keychain/secret-accounts';
import type { SecretStore } from '#keychain/secret-store';
import { throughPage, type ShowPage } from './authorization-page.ts';
import { authorizationRequest, readRedirect } from './authorization-request.ts';
import { authorizationServer, type AuthorizationServer, type Discovery } from './discovery.ts';
import { OAuthError, TokenError } from './errors.ts';
import type { RedirectListener, RedirectListenerOptions } from './redirect-listener.ts';
import type { RefreshLock } from './refresh-lock.ts';
import {
  authorizationCodeGrant,
  refreshTokenGrant,
  revokeToken,
  type OAuthPorts,
  type TokenServer,
} from './token-request.ts';

/** Stored with the sign-in, so that no later request asks the provider for its metadata again. */
type ProviderServer = TokenServer & Pick<AuthorizationServer, 'revocationEndpoint'>;

export type ProviderSignIn = {
  server: ProviderServer;
  subject: string;
  idToken: string;
  /** As the ID token says, by the clock of the provider. */
  expiresAt: EpochSeconds;
  obtainedAt: EpochSeconds;
  refreshToken?: string;
  /** The account, if the provider names it. */
  signedInAs?: string;
};

/** A sign-in that has ended, with the reason. */
export type EndedSignIn = { ended: string; endedAt: EpochSeconds };

export type ProviderPorts = OAuthPorts & { store: SecretStore; lock: RefreshLock };

/** The stored sign-in; `undefined` if there has been none, or another program wrote something else. */
export async function storedSignIn(
  provider: IdentityProvider,
  store: SecretStore,
): Promise<ProviderSignIn | EndedSignIn | undefined> {
  const record = parseObject(await store.get(providerAccount(provider)));
  if (!record) return undefined;
  const { ended, endedAt } = record;
  if (typeof ended === 'string' && typeof endedAt === 'number') return { ended, endedAt };
  const { server, subject, idToken, expiresAt, obtainedAt, refreshToken, signedInAs } = record;
  if (typeof subject !== 'string' || typeof idToken !== 'string') return undefined;
  if (typeof expiresAt !== 'number' || typeof obtainedAt !== 'number') return undefined;
  const known = parseServer(server, provider);
  return (
    known && {
      server: known,
      subject,
      idToken,
      expiresAt,
      obtainedAt,
      ...(typeof refreshToken === 'string' && { refreshToken }),
      ...(typeof signedInAs === 'string' && { signedInAs }),
    }
  );
}

function parseServer(value: unknown, { issuer }: IdentityProvider): ProviderServer | undefined {
  const { issuer: named, tokenEndpoint, revocationEndpoint, within } = membersOf(value);
  const { tokenEndpointAuthMethods: methods } = membersOf(value);
  if (named !== issuer || typeof tokenEndpoint !== 'string') return undefined;
  if (within !== 'public' && within !== 'private' && within !== 'loopback') return undefined;
  return {
    issuer,
    tokenEndpoint,
    tokenEndpointAuthMethods: Array.isArray(methods) ? methods.map(String) : [],
    within,
    ...(typeof revocationEndpoint === 'string' && { revocationEndpoint }),
  };
}

export const isSignedIn = (
  stored: ProviderSignIn | EndedSignIn | undefined,
): stored is ProviderSignIn => stored !== undefined && 'idToken' in stored;

/** Whether the person has signed in at the provider, with any connection, at `at` or later. */
export async function hasSignedInSince(
  provider: IdentityProvider,
  at: EpochSeconds,
  store: SecretStore,
): Promise<boolean> {
  const stored = await storedSignIn(provider, store);
  return isSignedIn(stored) && stored.obtainedAt >= at;
}

/** An ID token that expires sooner than this may expire on its way to the server. */
const marginSeconds = 60;

/** Whether the ID token can be used now. If not, a refresh token is needed to get a new one. */
export function isCurrent({ expiresAt, obtainedAt }: ProviderSignIn, now: EpochSeconds): boolean {
  // If the clock of this computer is wrong, a new ID token may look expired.
  return now < expiresAt - marginSeconds || Math.abs(now - obtainedAt) < marginSeconds;
}

/**
 * The sign-in with an ID token that the provider still accepts. An ID token that has expired, or that is `refused`, is renewed by one
 * process for all.
 *
 * OpenID Connect Core 1.0 §12
 *
 * @throws {TokenError} `signed_out` if the person has to sign in at the provider again
 * @throws {OAuthError}
 */
export async function currentSignIn(
  provider: IdentityProvider,
  refused: string | undefined,
  ports: ProviderPorts,
): Promise<ProviderSignIn> {
  const { store, lock, clock } = ports;
  const account = providerAccount(provider);
  const isGood = (stored: ProviderSignIn) =>
    stored.idToken !== refused && isCurrent(stored, clock.now());
  const first = await storedSignIn(provider, store);
  if (isSignedIn(first) && isGood(first)) return first;
  return lock.hold(account, async () => {
    for (let tried: string | undefined; ;) {
      const stored = await storedSignIn(provider, store);
      if (!isSignedIn(stored)) throw signedOut(provider, stored?.ended);
      if (isGood(stored)) return stored;
      const { refreshToken } = stored;
      if (refreshToken === undefined || refreshToken === tried)
        throw await endSignIn(
          provider,
          stored,
          refreshToken && `${provider.issuer} ended it`,
          ports,
        );
      try {
        return await renew(provider, stored, refreshToken, ports);
      } catch (error) {
        if (!(error instanceof OAuthError && error.details.error === 'invalid_grant')) throw error;
        // A process that does not use our lock may have renewed the sign-in first.
        tried = refreshToken;
      }
    }
  });
}

async function renew(
  provider: IdentityProvider,
  stored: ProviderSignIn,
  refreshToken: string,
  ports: ProviderPorts,
): Promise<ProviderSignIn> {
  const { server, subject } = stored;
  const granted = await refreshTokenGrant(
    { client: provider, refreshToken },
    { ...server, parameters: {} },
    ports,
  );
  const { idToken = '' } = granted;
  const claims = renewedClaims(idToken, provider);
  if (claims?.subject !== subject) {
    const what = claims ? 'was of another person' : 'was missing or not for us';
    throw await endSignIn(provider, stored, `the ID token of its renewal ${what}`, ports);
  }
  const next: ProviderSignIn = {
    ...stored,
    ...claims,
    idToken,
    obtainedAt: ports.clock.now(),
    refreshToken: granted.refreshToken ?? refreshToken,
  };
  await keep(provider, next, ports.store);
  return next;
}

function renewedClaims(idToken: string, provider: IdentityProvider) {
  try {
    return readIdToken(idToken, provider);
  } catch (error) {
    if (error instanceof OAuthError) return undefined;
    throw error;
  }
}

async function keep(
  provider: IdentityProvider,
  record: ProviderSignIn | EndedSignIn,
  store: SecretStore,
): Promise<void> {
  await store.set(providerAccount(provider), JSON.stringify(record));
}

/** Stores that the sign-in has ended, and returns the error to throw. */
async function endSignIn(
  provider: IdentityProvider,
  { signedInAs }: ProviderSignIn,
  why: string | undefined,
  { store, clock }: ProviderPorts,
): Promise<TokenError> {
  const who = signedInAs === undefined ? '' : ` of ${signedInAs}`;
  const reason = `the company sign-in${who} is over: ${why ?? 'it expired, and the provider does not renew it'}`;
  await keep(provider, { ended: reason, endedAt: clock.now() }, store);
  return signedOut(provider, reason);
}

/** Deletes the sign-in, and revokes its refresh token if the provider can. RFC 7009 */
export async function signOutAtProvider(
  provider: IdentityProvider,
  ports: ProviderPorts,
): Promise<void> {
  const account = providerAccount(provider);
  await ports.lock.hold(account, async () => {
    const stored = await storedSignIn(provider, ports.store);
    await ports.store.remove(account);
    if (!isSignedIn(stored) || stored.refreshToken === undefined) return;
    const token = { client: provider, token: stored.refreshToken, hint: 'refresh_token' as const };
    // A failure is ignored: the token is already deleted on this computer, and it expires at the provider.
    await revokeToken(token, stored.server, ports).catch(unlessOAuthError);
  });
}

function unlessOAuthError(error: unknown): void {
  if (!(error instanceof OAuthError)) throw error;
}

function signedOut({ issuer }: IdentityProvider, reason: string | undefined): TokenError {
  return new TokenError('signed_out', reason ?? `you are not signed in at ${issuer}`);
}

/**
 * Makes the provider ask for the password again. `max_age` makes it add the time of the sign-in to the ID token (`auth_time`), which
 * some providers omit otherwise.
 *
 * OpenID Connect Core 1.0 §3.1.2.1
 */
const freshSignIn = { prompt: 'login', max_age: '600' };

export type ProviderPagePorts = ProviderPorts & {
  listen: (options: RedirectListenerOptions) => Promise<RedirectListener>;
  show: ShowPage;
};

export type ProviderPageOptions = {
  /** The parts of the redirect address that the provider requires to be fixed. */
  address: RedirectListenerOptions;
  /** Whether the person has to enter their password even if their browser is still signed in at the provider. */
  again: boolean;
  /** The text of the page once the person is signed in. */
  next?: string | undefined;
  timeoutMs: number;
  signal: AbortSignal;
};

/**
 * The metadata of the provider. Unless a server named the provider, it may be in any network.
 *
 * @throws {OAuthError}
 */
export async function providerServer(
  { issuer, namedBy }: IdentityProvider,
  { http }: Pick<OAuthPorts, 'http'>,
): Promise<AuthorizationServer> {
  const known = namedBy === undefined ? undefined : await http.networkOf(new URL(namedBy));
  const from = { network: known ?? 'public', chosen: namedBy === undefined };
  const server = await authorizationServer({ issuer, ...from }, http);
  if (server) return server;
  throw new OAuthError('metadata', `${issuer} does not publish its metadata`, { endpoint: issuer });
}

/**
 * Lets the person sign in at the provider with the browser, and stores the sign-in for all connections.
 *
 * OpenID Connect Core 1.0 §3.1, RFC 8252, RFC 7636
 *
 * @throws {OAuthError | LoopbackError} or what the secret store rejects with
 */
export async function signInAtProvider(
  provider: IdentityProvider,
  { address, again, next, timeoutMs, signal }: ProviderPageOptions,
  ports: ProviderPagePorts,
): Promise<ProviderSignIn> {
  const { listen, show, store, lock, clock } = ports;
  const { issuer, clientId } = provider;
  const server = await providerServer(provider, ports);
  // Microsoft Entra ID supports PKCE with S256, but does not announce it.
  const discovery: Discovery = { ...server, takesS256: true, parameters: {}, published: true };
  const offline = server.serverScopesSupported?.includes('offline_access') ?? true;
  const scopes = ['openid', 'email', ...(offline ? ['offline_access'] : [])];
  const nonce = randomBytes(24).toString('base64url');
  const listener = await listen(address);
  try {
    const { redirectUri } = listener;
    const request = authorizationRequest(
      {
        clientId,
        redirectUri,
        scopes,
        authorizeParams: { nonce, ...(again && freshSignIn) },
      },
      discovery,
    );
    return await throughPage(
      { request, listener, show, next, timeoutMs, signal },
      async (query) => {
        const code = readRedirect(query, request.state, discovery);
        const { codeVerifier } = request;
        const redeemed = { client: provider, code, codeVerifier, redirectUri };
        const { idToken, refreshToken } = await authorizationCodeGrant(redeemed, discovery, ports);
        if (idToken === undefined)
          throw new OAuthError('metadata', `${issuer} answered without an ID token`, {
            endpoint: server.tokenEndpoint,
          });
        const { tokenEndpoint, tokenEndpointAuthMethods, revocationEndpoint, within } = server;
        const signedIn: ProviderSignIn = {
          server: {
            issuer,
            tokenEndpoint,
            tokenEndpointAuthMethods,
            within,
            ...(revocationEndpoint !== undefined && { revocationEndpoint }),
          },
          ...readIdToken(idToken, provider, nonce),
          idToken,
          obtainedAt: clock.now(),
          ...(refreshToken !== undefined && { refreshToken }),
        };
        await lock.hold(providerAccount(provider), async () => keep(provider, signedIn, store));
        return signedIn;
      },
    );
  } finally {
    await listener.close();
  }
}

/**
 * The claims of an ID token about the person. The signature is not checked, because the token comes from its issuer's token endpoint over
 * TLS, and the provider checks the signature when the token is exchanged.
 *
 * OpenID Connect Core 1.0 §3.1.3.7
 *
 * @throws {OAuthError} `metadata` if the token is not for us, or lacks the subject or expiry
 */
export function readIdToken(
  idToken: string,
  { issuer, clientId }: IdentityProvider,
  nonce?: string,
): Pick<ProviderSignIn, 'subject' | 'expiresAt' | 'signedInAs'> {
  const claims = payloadOf(idToken);
  const { iss, aud, sub, exp } = claims;
  const refuse = (problem: string) =>
    new OAuthError('metadata', `${issuer} sent an ID token ${problem}`, { endpoint: issuer });
  if (iss !== issuer) throw refuse('of another issuer');
  if (aud !== clientId && !(Array.isArray(aud) && aud.includes(clientId)))
    throw refuse('for another client');
  if (nonce !== undefined && claims['nonce'] !== nonce) throw refuse('of another sign-in');
  if (typeof sub !== 'string' || sub === '' || typeof exp !== 'number')
    throw refuse('without a subject or an expiry');
  const names = [claims['email'], claims['preferred_username']];
  const name = names.find((one) => typeof one === 'string' && one.trim() !== '');
  return {
    subject: sub,
    expiresAt: Math.floor(exp),
    ...(typeof name === 'string' && { signedInAs: name.trim().slice(0, 200) }),
  };
}

function payloadOf(jwt: string): JsonObject {
  const [, payload = ''] = jwt.split('.');
  return parseObject(Buffer.from(payload, 'base64url').toString()) ?? {};
}
