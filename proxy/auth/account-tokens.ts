import type { ClientCredentials, PersonCredentials } from '#config/connection';
import type { IdentityProvider } from '#config/identity-provider';
import type { Log } from '#log/log';
import type { TokenSource } from '#transport/credential';
import type { Account } from './account.ts';
import { TokenError } from './errors.ts';
import { renewingToken } from './server-list.ts';
import { StoredTokenSource, type Grant, type Known, type SignIn } from './token-source.ts';
import type { Granted } from './token-vault.ts';

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
  const { log, readAhead, signIn } = options;
  const common = { vault, lock, clock, log, readAhead };
  return credentials.kind === 'client_credentials'
    ? new StoredTokenSource({ ...common, grant: ownGrant(account, { url, credentials }) })
    : new StoredTokenSource({
        ...common,
        grant: personalGrant(account, { url, credentials }, log),
        signIn,
      });
}

/** Loads the code that renews a company sign-in or a workload's token, because an upgrade may remove the files of a running proxy. */
export async function loadGrants({ connection, provider }: Account): Promise<void> {
  if (connection.credentials.assertion !== undefined) await import('./workload-grant.ts');
  else if (await provider()) await import('./managed-authorization.ts');
}

/** The grant for a client or workload that acts for itself. */
export function ownGrant(
  account: Account,
  subject: { url: string; credentials: ClientCredentials },
  rebind = false,
): Grant {
  if (subject.credentials.assertion === undefined)
    return async (known) => {
      const { clientGrant } = await import('./grants.ts');
      return clientGrant(subject, known, account, rebind);
    };
  const refused = new Map();
  return async (known) => {
    const { workloadGrant } = await import('./workload-grant.ts');
    return workloadGrant(subject, known, { ...account, refused });
  };
}

/**
 * The grant for a person: with the company sign-in if there is one that the server accepts, otherwise with the server's refresh
 * token. A person who signed in to the server before their company had a provider keeps that sign-in until it ends.
 */
function personalGrant(
  account: Account,
  subject: { url: string; credentials: PersonCredentials },
  log: Log,
): Grant {
  return async (known) => {
    const provider = await account.provider();
    if (provider && !(await hasOwnSignIn(account, provider, known))) {
      const { managedGrant, unsupportedSentence } = await import('./managed-authorization.ts');
      const outcome = await managedGrant({ ...subject, provider }, known, account);
      if ('granted' in outcome) return outcome.granted;
      const why = unsupportedSentence(account.connection, provider, outcome.unsupported);
      log.warn(why);
      return ownSignIn(account, subject, known).catch((error: unknown) => {
        const isOver = error instanceof TokenError && error.code === 'signed_out';
        throw isOver ? new TokenError('signed_out', why, { cause: error }) : error;
      });
    }
    return ownSignIn(account, subject, known);
  };
}

/** Gets tokens with the server's refresh token. */
async function ownSignIn(
  account: Account,
  subject: { url: string; credentials: PersonCredentials },
  known: Known,
): Promise<Granted> {
  const [{ personGrant }, { registeredClients }] = await Promise.all([
    import('./grants.ts'),
    import('./client-registration.ts'),
  ]);
  const clients = registeredClients(account.store);
  return personGrant(subject, known, { ...account, clients });
}

/** Whether the person has signed in to the server itself, and never at the provider. */
async function hasOwnSignIn(
  { vault, store }: Account,
  provider: IdentityProvider,
  { previous, wider }: Known,
): Promise<boolean> {
  if (wider || !previous || previous.provider !== undefined) return false;
  if ((await renewingToken(previous, { vault, store })) === undefined) return false;
  const { storedSignIn } = await import('./provider-sign-in.ts');
  return (await storedSignIn(provider, store)) === undefined;
}
