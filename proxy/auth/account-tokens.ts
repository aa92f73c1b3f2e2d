import type { Log } from '#log/log';
import type { TokenSource } from '#transport/credential';
import type { Account } from './account.ts';
import type { SignInService } from './sign-in-service.ts';
import { storedTokenSource, type Grant } from './token-source.ts';

export type AccountTokensOptions = {
  /** Where a person signs in, when it takes one. */
  signInService: Pick<SignInService, 'ask'>;
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
      const { clientGrant } = await import('./grants.ts');
      return clientGrant({ url, credentials }, known, account);
    };
    return storedTokenSource({ ...common, grant });
  }
  const grant: Grant = async (known) => {
    const [{ personGrant }, { registeredClients }] = await Promise.all([
      import('./grants.ts'),
      import('./client-registration.ts'),
    ]);
    const clients = registeredClients(account.store);
    return personGrant({ url, credentials }, known, { ...account, clients });
  };
  return storedTokenSource({ ...common, grant, signIn: options.signInService.ask });
}
