import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { ownAccounts } from './own-accounts.ts';
import type { AccountsHost } from './accounts-host.ts';

/**
 * The accounts of a connection at which the keychain has nothing yet. What stands at the others may be
 * somebody else's, and is not this connection's to forget.
 *
 * @throws {SecretStoreError}
 */
export async function unheldAccounts(
  connection: Connection,
  options: Options,
  host: AccountsHost,
): Promise<string[]> {
  const store = await host.store(options);
  const unheld: string[] = [];
  for (const account of await ownAccounts(connection, options, host))
    if ((await store.get(account)) === undefined) unheld.push(account);
  return unheld;
}
