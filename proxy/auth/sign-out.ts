import type { Clock } from '#clock/clock';
import type { Connection, PersonCredentials } from '#config/connection';
import type { HttpClient } from '#transport/http-client';
import type { Account } from './account.ts';
import { configuredClient, type ConfiguredClientPorts } from './client-authentication.ts';
import { registeredClients, type RegisteredClients } from './client-registration.ts';
import { discover, type Discovery } from './discovery.ts';
import { OAuthError, TokenError } from './errors.ts';
import { clientNamed, personGrant } from './grants.ts';
import type { RefreshLock } from './refresh-lock.ts';
import { renewingToken } from './server-list.ts';
import { revokeToken } from './token-request.ts';
import { isExpired, type TokenRecord, type TokenVault } from './token-vault.ts';

export type SignOutPorts = ConfiguredClientPorts & {
  http: HttpClient;
  clock: Clock;
  vault: TokenVault;
  lock: RefreshLock;
  clients: RegisteredClients;
};

/** `notRevoked`: why the server still accepts the tokens that were deleted here. */
export type SignedOut = {
  wasSignedIn: boolean;
  notRevoked?: OAuthError;
  /** The issuer of the company's provider whose sign-in ended, too. */
  provider?: string;
};

/**
 * Revokes the tokens of a connection at their issuer, and deletes them even if the server refuses. The refresh token is revoked
 * first, because that usually revokes the access token as well.
 *
 * RFC 7009
 */
export async function signOut(connection: Connection, ports: SignOutPorts): Promise<SignedOut> {
  const { vault, lock } = ports;
  return lock.hold(vault.account, async () => {
    const token = await vault.access();
    if (!token) return { wasSignedIn: await vault.clear() };
    if (await isOver(token, ports)) {
      await vault.clear();
      return { wasSignedIn: false };
    }
    const failure = await revoke(connection, token, ports).catch((error: unknown) => {
      if (error instanceof OAuthError) return error;
      throw error;
    });
    await vault.clear();
    return { wasSignedIn: true, ...(failure && { notRevoked: failure }) };
  });
}

/** Whether the sign-in has ended, so that there is nothing to revoke: the access token has expired, and nothing renews it. */
async function isOver(token: TokenRecord, { vault, store, clock }: SignOutPorts): Promise<boolean> {
  return (
    isExpired(token, clock.now()) && (await renewingToken(token, { vault, store })) === undefined
  );
}

async function revoke(
  { url, credentials }: Connection,
  token: TokenRecord,
  ports: SignOutPorts,
): Promise<OAuthError | undefined> {
  if (credentials.kind === 'api_key') return undefined;
  const { issuer } = token;
  const discovery = await discover(
    {
      url,
      credentials,
      publishedBefore: token.published,
    },
    ports.http,
  );
  if (discovery.issuer !== issuer)
    return new OAuthError('issuer', `${url} now trusts ${discovery.issuer}, not ${issuer}`, {
      endpoint: issuer,
    });
  if (token.renewedBy !== undefined && credentials.kind === 'authorization_code')
    return revokeShared({ url, credentials }, token, discovery, ports);
  const refresh = await ports.vault.refresh(issuer);
  const clientId = refresh?.clientId ?? token.clientId;
  const client =
    clientId !== undefined && credentials.kind === 'authorization_code'
      ? await clientNamed(clientId, issuer, url, credentials, ports)
      : ((await configuredClient(url, credentials, ports)) ?? (await ports.clients.of(issuer)));
  if (!client)
    return new OAuthError('client', 'it is unknown which client received the token', {
      endpoint: issuer,
    });
  if (refresh)
    await revokeToken(
      { client, token: refresh.refreshToken, hint: 'refresh_token' },
      discovery,
      ports,
    );
  await revokeToken({ client, token: token.accessToken, hint: 'access_token' }, discovery, ports);
  return undefined;
}

/**
 * Ends the access to one server of several that share a refresh token, by revoking a valid access token. The refresh token stays valid
 * for the other servers.
 *
 * RFC 7009 §2.1
 */
async function revokeShared(
  { url, credentials }: { url: string; credentials: PersonCredentials },
  token: TokenRecord,
  discovery: Discovery,
  ports: SignOutPorts,
): Promise<undefined> {
  const shared = await renewingToken(token, ports);
  if (!shared) return undefined;
  const subject = { url, credentials };
  try {
    const current = isExpired(token, ports.clock.now())
      ? await personGrant(subject, { previous: token, wider: false }, ports)
      : token;
    const client = await clientNamed(shared.clientId, token.issuer, url, credentials, ports);
    const revoked = { client, token: current.accessToken, hint: 'access_token' as const };
    await revokeToken(revoked, discovery, ports);
  } catch (error) {
    // The access had already ended.
    if (!(error instanceof TokenError && error.code === 'signed_out')) throw error;
  }
  return undefined;
}

/**
 * Signs out, and deletes the tokens and the cached answers for this account. With `atProvider`, the sign-in at the company's provider ends,
 * too, because the next request would use it.
 */
export async function signOutConnection(
  account: Account,
  { atProvider }: { atProvider: boolean },
): Promise<SignedOut> {
  const { store, vault, marks } = account;
  const clients = registeredClients(store);
  const by = (await vault.access())?.provider;
  const signedOut = await signOut(account.connection, { ...account, clients });
  await marks.forgetListed();
  await account.forgetCached();
  const provider = atProvider && by !== undefined ? await account.provider() : undefined;
  if (!provider || provider.issuer !== by) return signedOut;
  const { signOutAtProvider } = await import('./provider-sign-in.ts');
  await signOutAtProvider(provider, account);
  return { ...signedOut, provider: by };
}
