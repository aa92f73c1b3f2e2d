// The list of a person's servers at a Latchkey server. Connections that were chosen from it share its sign-in: one refresh token, in the
// entry of the keychain that belongs to the list, gets an access token for each of them.
import type { SecretStore } from '#keychain/secret-store';
import type { Account, OAuthConnection } from './account.ts';
import {
  tokenAccount,
  tokenVault,
  type RefreshRecord,
  type TokenRecord,
  type TokenVault,
} from './token-vault.ts';

export function serverListUrl(origin: string): string {
  return `${origin}/api/my/servers`;
}

/** The list as a connection, which no file contains. Its name is the address of its server. */
export function listConnection(list: string): OAuthConnection {
  return {
    name: new URL(list).origin,
    url: list,
    source: list,
    credentials: { kind: 'authorization_code' },
  };
}

export async function listVault(store: SecretStore, list: string): Promise<TokenVault> {
  return tokenVault(store, await tokenAccount(listConnection(list)));
}

/** The account of a list, with the ports of the account of one of its connections. */
export async function listAccount(account: Account, list: string): Promise<Account> {
  return {
    ...account,
    connection: listConnection(list),
    vault: await listVault(account.store, list),
    forgetCached: () => Promise.resolve(),
    provider: () => Promise.resolve(undefined),
  };
}

/** The refresh token that renews this access token: the connection's own, or the shared one of a list. */
export async function renewingToken(
  { issuer, renewedBy }: Pick<TokenRecord, 'issuer' | 'renewedBy'>,
  { vault, store }: { vault: TokenVault; store: SecretStore },
): Promise<RefreshRecord | undefined> {
  if (renewedBy === undefined) return vault.refresh(issuer);
  return (await listVault(store, renewedBy)).refresh(issuer);
}
