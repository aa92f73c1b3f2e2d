import { signsIn, type Account } from '#auth/account';
import type { AccountStatus } from '#auth/account-status';
import type { ShowPage } from '#auth/authorization-page';
import { OAuthError, TokenError } from '#auth/errors';
import type { Connection } from '#config/connection';
import { ConfigurationError, UsageError } from '#config/errors';
import { connectionNames } from '#config/find-entry';
import type { IdentityProvider } from '#config/identity-provider';
import { userFiles } from '#config/user-files';
import { providerAccount } from '#keychain/secret-accounts';
import type { CompanySignedIn, CompanySignedOut, CompanyView } from './accounts-service.ts';
import type { BoundHost } from './connections-host.ts';

/** The accounts of all connections that name this provider. */
async function accountsAt(
  { issuer, clientId }: IdentityProvider,
  host: BoundHost,
): Promise<Account[]> {
  const { config } = host.options;
  const files = config === undefined ? userFiles(host) : [config];
  const accounts: Account[] = [];
  for (const name of await connectionNames(files, (path) => host.readText(path))) {
    const account = await accountOf(name, host);
    const provider = await account?.provider().catch(unlessExpected);
    if (account && provider?.issuer === issuer && provider.clientId === clientId)
      accounts.push(account);
  }
  return accounts;
}

async function accountOf(name: string, host: BoundHost): Promise<Account | undefined> {
  const connection = await host.readConnection(name).catch(unlessExpected);
  return connection && signsIn(connection) ? host.account(connection) : undefined;
}

/** Ignores the expected errors of a single connection, which the doctor reports. */
function unlessExpected(error: unknown): undefined {
  const isExpected =
    error instanceof ConfigurationError ||
    error instanceof OAuthError ||
    error instanceof TokenError;
  if (!isExpected) throw error;
}

/** Ends the sign-in at the provider of a connection that was removed, unless another connection names that provider. */
export async function endUnusedSignIn(removed: Connection, host: BoundHost): Promise<void> {
  if (!signsIn(removed)) return;
  const account = await host.account(removed);
  const provider = await account.provider().catch(unlessExpected);
  if (!provider || (await accountsAt(provider, host)).length > 0) return;
  const { signOutAtProvider } = await import('#auth/provider-sign-in');
  await signOutAtProvider(provider, account);
}

/**
 * After a person has signed in at a provider with `account`: signs in to the other connections that name it, without a page, and notifies
 * their running proxies. Returns the names of the connections that are newly signed in.
 */
export async function signInOthers(
  account: Account,
  provider: IdentityProvider,
  host: BoundHost,
): Promise<string[]> {
  const { joinSignIn } = await import('#auth/managed-authorization');
  const all = await accountsAt(provider, host);
  const names = all.map(async (other) => {
    if (other.vault.account === account.vault.account) return [];
    const { connection } = other;
    const isNew = await joinSignIn(other, provider).catch(unlessExpected);
    await host.notifyProxies(connection);
    return isNew ? [connection.name] : [];
  });
  return (await Promise.all(names)).flat();
}

/** The stored sign-in at each provider, read once for all connections of a list. */
export type StoredSignIns = Map<string, Promise<CompanyView>>;

/**
 * The sign-in at a company's provider with which a connection gets its tokens; `undefined` if the connection names no provider, or the
 * person has signed in to the server itself.
 */
export async function companyOf(
  connection: Connection,
  { state, provider: by }: Pick<AccountStatus, 'state' | 'provider'>,
  stored: StoredSignIns,
  host: Pick<BoundHost, 'account'>,
): Promise<CompanyView | undefined> {
  if (!signsIn(connection) || connection.credentials.kind !== 'authorization_code')
    return undefined;
  const account = await host.account(connection);
  const provider = await account.provider().catch(unlessExpected);
  if (!provider || (state === 'ready' && by !== provider.issuer)) return undefined;
  const key = providerAccount(provider);
  const view = stored.get(key) ?? viewOf(provider, account);
  stored.set(key, view);
  return view;
}

async function viewOf(
  provider: IdentityProvider,
  { store, clock }: Pick<Account, 'store' | 'clock'>,
): Promise<CompanyView> {
  const { isCurrent, isSignedIn, storedSignIn } = await import('#auth/provider-sign-in');
  const stored = await storedSignIn(provider, store);
  const { issuer, clientId } = provider;
  if (!isSignedIn(stored)) {
    const reason = stored && { reason: stored.ended };
    return { issuer, clientId, signedIn: false, renewable: false, ...reason };
  }
  const { signedInAs, expiresAt, refreshToken } = stored;
  const renewable = refreshToken !== undefined;
  return {
    issuer,
    clientId,
    signedIn: renewable || isCurrent(stored, clock.now()),
    ...(signedInAs !== undefined && { signedInAs }),
    expiresAt,
    renewable,
  };
}

export type CompanyPage = { show: ShowPage; signal: AbortSignal };

/** The provider of a connection, for an operation on its sign-in. @throws {UsageError} if it names none */
async function providerOf(account: Account): Promise<IdentityProvider> {
  const provider = await account.provider();
  if (provider) return provider;
  const { name } = account.connection;
  throw new UsageError(`${name} names no identity provider of a company`, `sign in to ${name}`);
}

/**
 * Signs in at the provider of a connection, and to all connections that name that provider. A page is shown unless the provider still vouches
 * for the person. A connection that gets no access does not stop the others.
 *
 * @throws {OAuthError} {@link LoopbackError} if the person is not signed in at the provider
 */
export async function signInCompany(
  account: Account,
  page: CompanyPage,
  host: BoundHost,
): Promise<CompanySignedIn> {
  const [{ showProviderPage }, { currentSignIn }] = await Promise.all([
    import('#auth/managed-authorization'),
    import('#auth/provider-sign-in'),
  ]);
  const provider = await providerOf(account);
  const accounts = await accountsAt(provider, host);
  let isNew = false;
  const show = async (again: boolean) => {
    isNew = true;
    return showProviderPage(account, provider, { ...page, again });
  };
  const stored = await currentSignIn(provider, undefined, account).catch(async (error: unknown) => {
    if (isSignedOut(error)) return show(false);
    throw error;
  });
  const first = await joinAll(accounts, provider, host);
  // A stored sign-in can be refused when it is used. Then only a new one helps.
  const isOver = !isNew && first.some(({ error }) => isSignedOut(error));
  const signedIn = isOver ? await show(true) : stored;
  const joined = isOver ? await joinAll(accounts, provider, host) : first;
  const named = (outcome: Joined['outcome']) =>
    joined.filter((one) => one.outcome === outcome).map(({ name }) => name);
  const { signedInAs } = signedIn;
  return {
    issuer: provider.issuer,
    ...(signedInAs !== undefined && { signedInAs }),
    connections: named('joined'),
    unsupported: named('unsupported'),
    refused: joined.flatMap(({ name, error }) => (error ? [{ name, problem: error.message }] : [])),
  };
}

const isSignedOut = (error: unknown) => error instanceof TokenError && error.code === 'signed_out';

type Joined = { name: string; outcome: 'joined' | 'unsupported' | 'refused'; error?: Error };

async function joinAll(
  accounts: readonly Account[],
  provider: IdentityProvider,
  host: BoundHost,
): Promise<Joined[]> {
  const { joinSignIn } = await import('#auth/managed-authorization');
  return Promise.all(
    accounts.map(async (account): Promise<Joined> => {
      const { connection, vault } = account;
      const { name } = connection;
      try {
        const isNew = await joinSignIn(account, provider);
        await host.notifyProxies(connection);
        const isBy = isNew || (await vault.access())?.provider === provider.issuer;
        return { name, outcome: isBy ? 'joined' : 'unsupported' };
      } catch (error) {
        unlessExpected(error);
        return { name, outcome: 'refused', error: error instanceof Error ? error : new Error() };
      }
    }),
  );
}

/** Ends the sign-in at the provider of a connection, and signs out of the connections that got their tokens with it. */
export async function signOutCompany(account: Account, host: BoundHost): Promise<CompanySignedOut> {
  const [{ signOutAtProvider }, { signOutConnection }] = await Promise.all([
    import('#auth/provider-sign-in'),
    import('#auth/sign-out'),
  ]);
  const provider = await providerOf(account);
  // This comes first, so that no running proxy gets a token in the meantime.
  await signOutAtProvider(provider, account);
  const done: { name: string; isRevoked: boolean }[] = [];
  for (const other of await accountsAt(provider, host)) {
    if ((await other.vault.access())?.provider !== provider.issuer) continue;
    const { notRevoked } = await signOutConnection(other, { atProvider: false });
    done.push({ name: other.connection.name, isRevoked: notRevoked === undefined });
  }
  return {
    issuer: provider.issuer,
    connections: done.map(({ name }) => name),
    notRevoked: done.filter(({ isRevoked }) => !isRevoked).map(({ name }) => name),
  };
}
