import { ConfigurationError } from '#config/configuration-error';
import { connectionNames } from '#config/connection-names';
import { findDocuments } from '#config/find-entry';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { keptAccounts, priorAccount } from './kept-secrets.ts';
import { looseSecrets } from './loose-secrets.ts';
import type { OwnMachine } from './own-machine.ts';
import { registered } from './registry.ts';

/** Does `work` while nobody of this machine adds, removes or sweeps. */
export async function whileNobodySweeps<T>(
  options: Options,
  machine: OwnMachine,
  work: () => Promise<T>,
): Promise<T> {
  return machine.exclusively('loose secrets', options, work);
}

/**
 * Forgets what a process that died left in the keychain for a connection that does not come to be, or is
 * no more. Where nothing was left it takes one look at a folder; where our connections cannot be read, all
 * stays.
 *
 * @throws {SecretStoreError}
 */
export async function sweepSecrets(options: Options, machine: OwnMachine): Promise<void> {
  const loose = looseSecrets(options, machine);
  if ((await loose.all()).length === 0) return;
  await whileNobodySweeps(options, machine, async () => {
    const accounts = await loose.all();
    const needed = await neededAccounts(options, machine);
    if (!needed) return;
    const store = await machine.store(options);
    for (const account of accounts.filter((one) => !needed.has(one))) {
      await store.remove(account);
      await store.remove(priorAccount(account));
    }
    await loose.settled(accounts);
  });
}

/** `undefined` when a file or an entry cannot be read, so that nobody knows. */
async function neededAccounts(
  options: Options,
  machine: OwnMachine,
): Promise<Set<string> | undefined> {
  const file = registryFile(machine);
  const read = (path: string) => machine.readText(path);
  const whole = (await findDocuments([file], read)).length > 0;
  if (!whole && read(file) !== undefined) return undefined;
  const names = await connectionNames([file], read);
  const needed = new Set<string>();
  for (const name of names) {
    const connection = await registered(name, options, machine).catch((error: unknown) => {
      if (error instanceof ConfigurationError) return undefined;
      throw error;
    });
    if (!connection) return undefined;
    for (const account of keptAccounts(connection)) needed.add(account);
  }
  return needed;
}
