import { connectionEntry } from '#config/connection-entry';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { UsageError } from '#config/usage-error';
import { dropSecrets, keepSecrets, keptAccounts, type ConnectionSecrets } from './kept-secrets.ts';
import { looseSecrets } from './loose-secrets.ts';
import { noteStored } from './note-stored.ts';
import type { Checked, OwnMachine } from './own-machine.ts';
import {
  checkName,
  checkUnambiguous,
  registered,
  setRegistered,
  sharesClient,
} from './registry.ts';
import { sweepSecrets, whileNobodySweeps } from './sweep-secrets.ts';

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
  machine: OwnMachine,
): Promise<void> {
  checkName(name);
  await checkUnambiguous(name, url, options, machine);
  const before = await registered(name, options, machine);
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
  machine: OwnMachine,
): Promise<Checked | undefined> {
  const { name } = connection;
  await checkFree(connection, replace, options, machine);
  const before = await registered(name, options, machine);
  const checked = check ? await machine.check(connection, options, signal) : undefined;
  const issuer = await issuerOf(connection, checked, options, machine);
  const store = await machine.store(options);
  const loose = looseSecrets(options, machine);
  await sweepSecrets(options, machine);
  await whileNobodySweeps(options, machine, async () => {
    // What stood there before us may be somebody else's, and stays.
    const fresh: string[] = [];
    for (const account of keptAccounts(connection))
      if ((await store.get(account)) === undefined) fresh.push(account);
    const goes = before ? keptAccounts(before) : [];
    await loose.note([...fresh, ...goes]);
    await keepSecrets(connection, { ...secrets, ...issuer }, store);
    await noteStored(connection, secrets, options, machine);
    await setRegistered(name, connectionEntry(connection), options, machine);
    if (before) {
      const shared = await sharesClient(before, options, machine);
      await dropSecrets(before, { shared, successor: connection }, store);
    }
    await loose.settled([...fresh, ...goes]);
  });
  return checked;
}

/** The issuer that the secret has just been used with is the only one that gets it from now on. */
async function issuerOf(
  connection: Connection,
  checked: Checked | undefined,
  options: Options,
  machine: OwnMachine,
): Promise<{ issuer?: string }> {
  const { credentials } = connection;
  if (credentials.kind === 'api_key') return {};
  if (credentials.issuer !== undefined) return { issuer: credentials.issuer };
  if (checked?.issuer !== undefined) return { issuer: checked.issuer };
  if (checked?.as !== 'client') return {};
  const { vault } = await machine.account({ ...connection, credentials }, options);
  const token = await vault.access();
  return token ? { issuer: token.issuer } : {};
}
