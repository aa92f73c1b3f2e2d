import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { accountUse } from './account-use.ts';
import { isClientSecretAccount } from './configured-client.ts';
import { keptAccounts, priorAccount } from './kept-secrets.ts';
import { ownAccounts } from './own-accounts.ts';
import type { AccountsHost } from './accounts-host.ts';
import { signsIn } from './signs-in.ts';

/**
 * Forgets the secrets of a connection that our file no longer has, and the tokens that they brought,
 * which the server is not told of. What the `successor` of the same name or any other connection leads to
 * stays, of ours as of an assistant's file. So does a client's secret while one of those files cannot be
 * read: the accounts of which nobody knows.
 *
 * @throws {SecretStoreError}
 */
export async function forgetSecrets(
  connection: Connection,
  options: Options,
  host: AccountsHost,
  successor?: Connection,
): Promise<string[]> {
  const use = await accountUse([registryFile(host)], options, host);
  const store = await host.store(options);
  const successors = new Set(successor && (await ownAccounts(successor, options, host)));
  const stays = (account: string) => successors.has(account) || use(account) === 'needed';
  const isUnknown = (account: string) =>
    isClientSecretAccount(account) && use(account) === 'unknown';
  const gone = keptAccounts(connection).filter((account) => !stays(account));
  for (const account of gone.filter((one) => !isUnknown(one))) {
    await store.remove(account);
    await store.remove(priorAccount(account));
  }
  if (signsIn(connection)) {
    const { vault, lock } = await host.account(connection, options);
    if (!stays(vault.account)) await lock.hold(vault.account, async () => vault.clear());
  }
  return gone.filter(isUnknown);
}
