import { connectionEntry } from '#config/connection-entry';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { UsageError } from '#config/usage-error';
import type { TokenRecord } from './token-record.ts';
import { forgetSecrets } from './forget-secrets.ts';
import { keepSecrets, type ConnectionSecrets } from './kept-secrets.ts';
import { looseSecrets } from './loose-secrets.ts';
import { noteStored } from './note-stored.ts';
import { ownAccounts } from './own-accounts.ts';
import type { Checked, AccountsHost } from './accounts-host.ts';
import { checkName, checkUnambiguous, registered, setRegistered } from './registry.ts';
import { signsIn } from './signs-in.ts';
import { sweepSecrets, whileNobodySweeps } from './sweep-secrets.ts';
import { unheldAccounts } from './unheld-accounts.ts';

export type AddOptions = {
  /** Also when the name is taken. */
  replace: boolean;
  /** Whether the server is asked before anything is kept. */
  check: boolean;
  signal?: AbortSignal;
};

/**
 * Refuses a name that cannot be used, or that means something else already.
 *
 * @throws {UsageError} {@link ConfigurationError}
 */
export async function checkFree(
  { name, url }: { name: string; url: string },
  replace: boolean,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  checkName(name);
  await checkUnambiguous(name, url, options, host);
  const before = await registered(name, options, host);
  if (before && !replace)
    throw new UsageError(
      `${name} is there already, for ${before.url}`,
      'add --replace, or choose another name',
    );
}

/**
 * Makes a connection of our own: the server is asked, the secrets go to the keychain, the entry to our
 * file, and only then what it replaces is forgotten. Whatever ends this in between, the one before or the
 * one after is whole, and a secret that leads to neither is swept by whoever comes next.
 *
 * @throws what the server's refusal brings; nothing is kept then
 */
export async function addConnection(
  connection: Connection,
  secrets: ConnectionSecrets,
  { replace, check, signal }: AddOptions,
  options: Options,
  host: AccountsHost,
): Promise<Omit<Checked, 'token'> | undefined> {
  const { name } = connection;
  await checkFree(connection, replace, options, host);
  // What the server gives for the trial is not kept before its account is noted.
  const nowhere: Options = { ...options, secretStore: 'memory' };
  const found = check ? await host.check(connection, nowhere, signal) : undefined;
  // The issuer that the secret has just been used with is the only one that gets it from now on.
  const issuer = signsIn(connection) ? (connection.credentials.issuer ?? found?.issuer) : undefined;
  const store = await host.store(options);
  const loose = looseSecrets(options, host);
  await sweepSecrets(options, host);
  await whileNobodySweeps(options, host, async () => {
    // Somebody may have been quicker while the server was asked.
    await checkFree(connection, replace, options, host);
    const before = await registered(name, options, host);
    const fresh = await unheldAccounts(connection, options, host);
    const goes = before ? await ownAccounts(before, options, host) : [];
    const noted = [...fresh, ...goes].map((account) => ({ account, file: connection.source }));
    await loose.note(noted);
    await keepSecrets(connection, { ...secrets, ...(issuer !== undefined && { issuer }) }, store);
    await noteStored(connection, secrets, options, host);
    if (found?.token) await keepToken(connection, found.token, options, host);
    await setRegistered(name, connectionEntry(connection), options, host);
    const unknown = before ? await forgetSecrets(before, options, host, connection) : [];
    await loose.settled(noted.filter(({ account }) => !unknown.includes(account)));
  });
  if (!found) return undefined;
  const { token: _, ...checked } = found;
  return checked;
}

async function keepToken(
  connection: Connection,
  token: TokenRecord,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  if (!signsIn(connection)) return;
  const { vault, lock } = await host.account(connection, options);
  await lock.hold(vault.account, async () => vault.save(token));
}
