import type { EpochSeconds } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { Account } from './account.ts';
import { renewingToken } from './server-list.ts';
import type { MissingAccount } from './sign-in-marks.ts';
import { isExpired } from './token-vault.ts';

/** The status of a connection, as far as it is known without contacting a server. */
export type AccountStatus = {
  name: string;
  url: string;
  source: string;
  /** `ready`: there is a credential, or one can be fetched without a person. `assistant`: the assistant signs in itself. */
  state: 'ready' | 'signed_out' | 'assistant';
  /** The title of that assistant. */
  assistant?: string;
  /** Set if a check in the last hour found that the MCP server behind a Latchkey server needs an account or a key of the person. */
  missingAccount?: MissingAccount;
  as: 'api_key' | 'client' | 'person';
  issuer?: string;
  scope?: string;
  /** The account that a person signed in with, if the server names it. */
  signedInAs?: string;
  expiresAt?: EpochSeconds;
  /** The issuer of the company's provider that vouched for the person. */
  provider?: string;
  /** Whether a new access token can be fetched without a person. */
  renewable: boolean;
};

export async function accountStatus(
  { name, url, source, credentials, headers = {} }: Connection,
  account: Pick<Account, 'vault' | 'store' | 'provider'> | undefined,
  now: EpochSeconds,
  /** Whether the keychain has all secrets that the configuration says are there. */
  complete = true,
): Promise<AccountStatus> {
  const what = { name, url, source };
  // A configured header with credentials replaces all other credentials.
  const chosen = 'authorization' in headers || 'x-api-key' in headers;
  if (credentials.kind === 'api_key' || chosen)
    return { ...what, state: complete ? 'ready' : 'signed_out', as: 'api_key', renewable: false };
  const client = credentials.kind === 'client_credentials';
  if (!account)
    return { ...what, state: 'signed_out', as: client ? 'client' : 'person', renewable: false };
  const { vault } = account;
  const token = await vault.access();
  const refresh = token && (await renewingToken(token, account));
  const renewable =
    client || refresh !== undefined || (await isVouchedFor(token?.provider, account, now));
  const good = token !== undefined && !isExpired(token, now);
  return {
    ...what,
    state: good || renewable ? 'ready' : 'signed_out',
    as: client ? 'client' : 'person',
    ...(token && { issuer: token.issuer }),
    ...(token?.scope !== undefined && { scope: token.scope }),
    ...(token?.signedInAs !== undefined && { signedInAs: token.signedInAs }),
    ...(token?.expiresAt !== undefined && { expiresAt: token.expiresAt }),
    ...(token?.provider !== undefined && { provider: token.provider }),
    renewable,
  };
}

/** Whether requests need no person. `isGranted`: whether the list that the connection shares its sign-in with, if any, includes its server. */
export async function needsNoPerson(account: Account, isGranted: boolean): Promise<boolean> {
  const { connection, vault, clock } = account;
  if (!isGranted && (await vault.access())?.renewedBy !== undefined) return false;
  return (await accountStatus(connection, account, clock.now())).state === 'ready';
}

/** Whether the provider that vouched for the person before can do so again without them. */
async function isVouchedFor(
  issuer: string | undefined,
  { store, provider: named }: Pick<Account, 'store' | 'provider'>,
  now: EpochSeconds,
): Promise<boolean> {
  const provider = issuer === undefined ? undefined : await named();
  if (!provider || provider.issuer !== issuer) return false;
  const { isCurrent, isSignedIn, storedSignIn } = await import('./provider-sign-in.ts');
  const stored = await storedSignIn(provider, store);
  return isSignedIn(stored) && (stored.refreshToken !== undefined || isCurrent(stored, now));
}
