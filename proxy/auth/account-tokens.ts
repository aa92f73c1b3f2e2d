import type { Log } from '#log/log';
import { storedTokenSource, type Grant } from './stored-token-source.ts';
import type { TokenSource } from './token-source.ts';
import type { Account } from './account.ts';
import type { SignInDesk } from './sign-in-desk.ts';

export type AccountTokensOptions = {
  /** Where a person signs in, when it takes one. */
  desk: Pick<SignInDesk, 'ask'>;
  readAhead: boolean;
  log: Log;
};

/** The tokens of a running proxy. What renews them is loaded when one is due. */
export function accountTokens(account: Account, options: AccountTokensOptions): TokenSource {
  const { connection, vault, lock, clock } = account;
  const { url, credentials } = connection;
  const common = { vault, lock, clock, log: options.log, readAhead: options.readAhead };
  if (credentials.kind === 'client_credentials') {
    const grant: Grant = async (known) => {
      const { clientGrant } = await import('./client-grant.ts');
      return clientGrant({ url, credentials }, known, account);
    };
    return storedTokenSource({ ...common, grant });
  }
  const grant: Grant = async (known) => {
    const [{ personGrant }, { registeredClients }] = await Promise.all([
      import('./person-grant.ts'),
      import('./registered-clients.ts'),
    ]);
    const clients = registeredClients(account.store);
    return personGrant({ url, credentials }, known, { ...account, clients });
  };
  return storedTokenSource({ ...common, grant, signIn: options.desk.ask });
}
