import type { Clock } from '#clock/clock';
import type { ClientCredentials, PersonCredentials } from '#config/connection';
import type { OAuthSettings } from '#config/oauth-fields';
import { isInKeychain } from '#config/secret';
import type { HttpClient } from '#transport/http-client';
import {
  bindSecret,
  configuredClient,
  type ConfiguredClientPorts,
  type OAuthClient,
} from './client-authentication.ts';
import type { RegisteredClients } from './client-registration.ts';
import { discover, type Discovery } from './discovery.ts';
import { OAuthError, TokenError } from './errors.ts';
import {
  clientCredentialsGrant,
  refreshTokenGrant,
  tokenOf,
  type FetchedToken,
} from './token-request.ts';
import type { Known } from './token-source.ts';
import { listVault, renewingToken } from './server-list.ts';
import type { RefreshLock } from './refresh-lock.ts';
import type { Granted, TokenRecord, TokenVault } from './token-vault.ts';

export type ClientGrantPorts = ConfiguredClientPorts & { http: HttpClient; clock: Clock };

/**
 * Fetches a token for the client itself. A secret in the keychain is sent only to the issuer that it is bound to, unless
 * the user configured an issuer or allows another one with `rebind`.
 *
 * @throws {OAuthError}
 */
export async function clientGrant(
  { url, credentials }: { url: string; credentials: ClientCredentials },
  { challenge, previous, wider }: Known,
  ports: ClientGrantPorts,
  rebind = false,
): Promise<Granted> {
  const client = await configuredClient(url, credentials, ports);
  if (!client) throw new OAuthError('client', 'no client ID is configured', { endpoint: url });
  const { boundIssuer, ...plain } = client;
  const bound =
    boundIssuer === undefined || rebind
      ? previous
      : { published: false, ...previous, issuer: boundIssuer };
  const token = await fetchClientToken(
    { url, client: plain, credentials, challenge, previous: bound, wider },
    ports,
  );
  if (isInKeychain(credentials.clientSecret))
    await bindSecret(url, client, token.issuer, ports.store);
  return token;
}

/** The facts that are known before a client requests a token. */
type ClientKnown = {
  challenge?: string | undefined;
  previous?: Pick<FetchedToken, 'issuer' | 'published' | 'scope'> | undefined;
  /** Whether to request the scopes of the challenge in addition to the previous ones. */
  wider: boolean;
};

type FetchClientTokenInput = Partial<ClientKnown> & {
  /** The MCP server's URL, exactly as configured. */
  url: string;
  client: OAuthClient;
  credentials: OAuthSettings;
};

/**
 * Fetches an access token for an MCP server with a client's secret or key. The secret is never sent to a different
 * authorization server than last time, unless the user configured that server.
 *
 * MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function fetchClientToken(
  { url, client, credentials, challenge, previous, wider = false }: FetchClientTokenInput,
  { http, clock }: { http: HttpClient; clock: Clock },
): Promise<FetchedToken> {
  const known = { challenge, previous, wider };
  const { discovery, scopes } = await discoverForClient({ url, credentials }, known, http);
  const granted = await clientCredentialsGrant({ client, scopes }, discovery, { http, clock });
  return tokenOf(granted, discovery, clock.now());
}

/**
 * The authorization server of a client that acts for itself, and the scopes to request. Unless the user configured the server, it
 * is the same as last time.
 *
 * @throws {OAuthError} `issuer`, for example
 */
export async function discoverForClient(
  { url, credentials }: { url: string; credentials: OAuthSettings },
  { challenge, previous, wider }: ClientKnown,
  http: HttpClient,
): Promise<{ discovery: Discovery; scopes: readonly string[] | undefined }> {
  const publishedBefore = previous?.published ?? false;
  const discovery = await discover({ url, credentials, challenge, publishedBefore }, http);
  refuseOtherIssuer(url, credentials, previous, discovery);
  return { discovery, scopes: clientScopes(credentials, { previous, wider }, discovery) };
}

function refuseOtherIssuer(
  url: string,
  credentials: OAuthSettings,
  previous: Pick<FetchedToken, 'issuer'> | undefined,
  { issuer }: Discovery,
): void {
  if (!previous || credentials.issuer !== undefined || previous.issuer === issuer) return;
  const message = `${url} now trusts ${issuer}; until now it trusted ${previous.issuer}`;
  throw new OAuthError('issuer', message, { endpoint: url });
}

/** The configured scopes; with `wider`, also the scopes of the previous token and of the challenge. */
function clientScopes(
  { scopes }: OAuthSettings,
  { previous, wider }: { previous?: Pick<FetchedToken, 'scope'> | undefined; wider: boolean },
  { challengedScopes = [] }: Discovery,
): readonly string[] | undefined {
  if (!wider) return scopes;
  const before = [...(scopes ?? []), ...(previous?.scope?.split(' ') ?? [])];
  return [...new Set([...before, ...challengedScopes])];
}

export type PersonGrantPorts = ConfiguredClientPorts & {
  http: HttpClient;
  clock: Clock;
  vault: TokenVault;
  lock: RefreshLock;
  clients: RegisteredClients;
};

/**
 * Renews the token of a person who has signed in. The refresh token is sent only to the issuer that issued it. The caller holds
 * the lock.
 *
 * @throws {TokenError} `signed_out` if the person has to sign in again
 * @throws {OAuthError}
 */
export async function personGrant(
  { url, credentials }: { url: string; credentials: PersonCredentials },
  { challenge, previous, wider }: Known,
  ports: PersonGrantPorts,
): Promise<Granted> {
  const { vault, http, clock } = ports;
  const stored = previous && (await renewingToken(previous, ports));
  if (!previous || !stored) throw new TokenError('signed_out', 'you are not signed in');
  // A refresh token never adds scopes. RFC 6749 §6
  if (wider)
    throw new TokenError(
      'signed_out',
      'the sign-in does not include the scopes that the server requires',
    );
  const { published: publishedBefore } = previous;
  const discovery = await discover({ url, credentials, challenge, publishedBefore }, http);
  const { issuer } = discovery;
  if (issuer !== previous.issuer)
    throw new TokenError('signed_out', `${url} now trusts ${issuer}, not ${previous.issuer}`);

  if (previous.renewedBy !== undefined)
    return sharedGrant({ url, credentials, list: previous.renewedBy }, previous, discovery, ports);
  let { refreshToken, clientId } = stored;
  for (;;) {
    try {
      const client = await clientNamed(clientId, issuer, url, credentials, ports);
      const granted = await refreshTokenGrant({ client, refreshToken }, discovery, ports);
      const refresh = { refreshToken: granted.refreshToken ?? refreshToken, clientId };
      return { ...tokenOf(granted, discovery, clock.now(), previous), refresh };
    } catch (error) {
      const isEnded = error instanceof OAuthError && error.details.error === 'invalid_grant';
      if (!isEnded || error.code === 'suspended') throw error;
      // A process that does not use our lock may have renewed the token first. Then its refresh token is the valid one.
      const now = await vault.refresh(issuer);
      if (!now || now.refreshToken === refreshToken) {
        await vault.dropRefresh(issuer, refreshToken);
        throw new TokenError('signed_out', `${issuer} ended the sign-in`, { cause: error });
      }
      ({ refreshToken, clientId } = now);
    }
  }
}

/**
 * Gets a token with the refresh token that the connections to several servers share. One process at a time uses and replaces it; the
 * caller also holds the lock of the connection itself. If only the access to this server has ended, the other connections stay signed in.
 *
 * RFC 8707 §2.2
 */
async function sharedGrant(
  { url, credentials, list }: { url: string; credentials: PersonCredentials; list: string },
  previous: TokenRecord,
  discovery: Discovery,
  ports: PersonGrantPorts,
): Promise<Granted> {
  const { vault, lock, store, clock } = ports;
  const { issuer } = discovery;
  const shared = await listVault(store, list);
  return lock.hold(shared.account, async () => {
    for (let tried: string | undefined; ;) {
      const { refreshToken, clientId } = (await shared.refresh(issuer)) ?? {};
      if (refreshToken === undefined || clientId === undefined || refreshToken === tried) {
        if (refreshToken !== undefined) await shared.dropRefresh(issuer, refreshToken);
        throw new TokenError('signed_out', `${issuer} ended the sign-in`);
      }
      try {
        const client = await clientNamed(clientId, issuer, list, credentials, ports);
        const granted = await refreshTokenGrant({ client, refreshToken }, discovery, ports);
        const next = granted.refreshToken ?? refreshToken;
        await shared.rotate(issuer, { refreshToken: next, clientId });
        return { ...tokenOf(granted, discovery, clock.now(), previous), renewedBy: list };
      } catch (error) {
        if (!(error instanceof OAuthError) || error.code === 'suspended') throw error;
        if (error.details.error === 'invalid_target') {
          await vault.leaveShared(clock.now());
          const message = `${issuer} ended the access to ${url}`;
          throw new TokenError('signed_out', message, { cause: error });
        }
        // A process that does not use our lock may have replaced the refresh token first.
        if (error.details.error !== 'invalid_grant') throw error;
        tried = refreshToken;
      }
    }
  });
}

/** The client that a refresh token was issued to. No other client can use it. */
export async function clientNamed(
  clientId: string,
  issuer: string,
  url: string,
  credentials: PersonCredentials,
  ports: ConfiguredClientPorts & { clients: RegisteredClients },
): Promise<OAuthClient> {
  if (credentials.clientId === clientId) {
    const configured = await configuredClient(url, credentials, ports);
    if (configured?.boundIssuer !== undefined && configured.boundIssuer !== issuer)
      throw new OAuthError('issuer', `the stored secret belongs to ${configured.boundIssuer}`, {
        endpoint: issuer,
      });
    if (configured) return configured;
  }
  const registered = await ports.clients.of(issuer);
  return registered?.clientId === clientId ? registered : { clientId };
}
