import { signsIn, type Account } from '#auth/account';
import { OAuthError, TokenError } from '#auth/errors';
import type { Connection } from '#config/connection';
import { ConfigurationError } from '#config/errors';
import { connectionNames } from '#config/find-entry';
import type { IdentityProvider } from '#config/identity-provider';
import type { Options } from '#config/options';
import { userFiles } from '#config/user-files';
import type { ConnectionsHost } from './connections-host.ts';

/** The accounts of all connections that name this provider. */
export async function accountsAt(
  { issuer, clientId }: IdentityProvider,
  options: Options,
  host: ConnectionsHost,
): Promise<Account[]> {
  const files = options.config === undefined ? userFiles(host) : [options.config];
  const accounts: Account[] = [];
  for (const name of await connectionNames(files, (path) => host.readText(path))) {
    const account = await accountOf(name, options, host);
    const provider = await account?.provider().catch(unlessExpected);
    if (account && provider?.issuer === issuer && provider.clientId === clientId)
      accounts.push(account);
  }
  return accounts;
}

async function accountOf(
  name: string,
  options: Options,
  host: ConnectionsHost,
): Promise<Account | undefined> {
  const connection = await host.readConnection(name, options).catch(unlessExpected);
  return connection && signsIn(connection) ? host.account(connection, options) : undefined;
}

/** For a connection that has its own trouble, which the doctor reports. */
function unlessExpected(error: unknown): undefined {
  const isExpected =
    error instanceof ConfigurationError ||
    error instanceof OAuthError ||
    error instanceof TokenError;
  if (!isExpected) throw error;
}

/** Ends the sign-in at the provider of a connection that was removed, unless another connection names that provider. */
export async function endUnusedSignIn(
  removed: Connection,
  options: Options,
  host: ConnectionsHost,
): Promise<void> {
  if (!signsIn(removed)) return;
  const account = await host.account(removed, options);
  const provider = await account.provider().catch(unlessExpected);
  if (!provider || (await accountsAt(provider, options, host)).length > 0) return;
  const { signOutAtProvider } = await import('#auth/provider-sign-in');
  await signOutAtProvider(provider, account);
}

/**
 * After a person has signed in at a provider with `account`: signs in to the other connections that name it, without a page, and lets their
 * running proxies know. Returns the names of those connections.
 */
export async function signInOthers(
  account: Account,
  provider: IdentityProvider,
  options: Options,
  host: ConnectionsHost,
): Promise<string[]> {
  const { joinSignIn } = await import('#auth/managed-authorization');
  const all = await accountsAt(provider, options, host);
  const names = all.map(async (other) => {
    if (other.vault.account === account.vault.account) return [];
    const { connection } = other;
    const isNew = await joinSignIn(other, provider).catch(unlessExpected);
    await host.askProxies('sign_in_done', connection, options).catch(() => 0);
    return isNew ? [connection.name] : [];
  });
  return (await Promise.all(names)).flat();
}
