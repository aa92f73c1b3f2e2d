import type { Log } from '#log/log';
import type { TokenSource } from '#transport/credential';
import type { Account } from './account.ts';
import { StoredTokenSource, type Grant, type SignIn } from './token-source.ts';

export type AccountTokensOptions = {
  /** Lets a person sign in when that is required. */
  signIn: SignIn;
  readAhead: boolean;
  log: Log;
};

/** The tokens of a running proxy. The code that renews them is loaded when a token is due. */
export function accountTokens(account: Account, options: AccountTokensOptions): TokenSource {
  const { connection, vault, lock, clock } = account;
  const { url, credentials } = connection;
  const common = { vault, lock, clock, log: options.log, readAhead: options.readAhead };
  if (credentials.kind === 'client_credentials') {
    const grant: Grant = async (known) => {
      const { clientGrant } = await import('./grants.ts');
      return clientGrant({ url, credentials }, known, account);
    };
    return new StoredTokenSource({ ...common, grant });
  }
  const grant: Grant = async (known) => {
    const [{ personGrant }, { registeredClients }] = await Promise.all([
      import('./grants.ts'),
      import('./client-registration.ts'),
    ]);
    const clients = registeredClients(account.store);
    return personGrant({ url, credentials }, known, { ...account, clients });
  };
  return new StoredTokenSource({ ...common, grant, signIn: options.signIn });
}
