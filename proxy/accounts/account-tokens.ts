import type { Log } from '#log/log';
import type { SignInMode } from '#config/options';
import { storedTokenSource, type Grant, type Known, type SignIn } from '#token/stored-token-source';
import type { TokenSource } from '#token/token-source';
import type { Account } from './account.ts';
import type { ShowPage } from './sign-in.ts';

export type AccountTokensOptions = {
  mode: SignInMode;
  show: ShowPage;
  readAhead: boolean;
  log: Log;
  signal: AbortSignal;
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
  let policy: Promise<SignIn> | undefined;
  const signIn: SignIn = async (known, isGood) => {
    policy ??= signInPolicyOf(account, options);
    return (await policy)(known, isGood);
  };
  return storedTokenSource({ ...common, grant, signIn });
}

async function signInPolicyOf(
  account: Account,
  { mode, show, signal }: AccountTokensOptions,
): Promise<SignIn> {
  const { vault, patientLock: lock, marks, clock } = account;
  const { signInPolicy } = await import('./sign-in-policy.ts');
  const ask = async (known: Known) => {
    const { signInAccount } = await import('./sign-in-account.ts');
    return signInAccount(account, { show, signal, known });
  };
  const noteScopes = async ({ challenge, previous }: Known) => {
    const { parseChallenge } = await import('#oauth/parse-challenge');
    const words = [previous?.scope, parseChallenge(challenge).scope].join(' ').split(' ');
    await marks.wantScopes([...new Set(words.filter(Boolean))]);
  };
  return signInPolicy({ mode, marks, lock, vault, ask, noteScopes, clock });
}
