import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { keptAccounts } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';
import { signsIn } from './signs-in.ts';

/** Every account that is a connection's own: its secrets, and the tokens that they bring. */
export async function ownAccounts(
  connection: Connection,
  options: Options,
  host: AccountsHost,
): Promise<string[]> {
  const kept = keptAccounts(connection);
  if (!signsIn(connection)) return kept;
  const { vault } = await host.account(connection, options);
  return [...kept, vault.account];
}
