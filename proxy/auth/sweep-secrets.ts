import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { tokenVault } from './token-vault.ts';
import { isTokenAccount } from './token-account.ts';
import { accountUse } from './account-use.ts';
import { priorAccount } from './kept-secrets.ts';
import { looseSecrets } from './loose-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';

/** Does `work` while nobody of this machine adds, imports, removes or sweeps. */
export async function whileNobodySweeps<T>(
  options: Options,
  host: AccountsHost,
  work: () => Promise<T>,
): Promise<T> {
  return host.exclusively('loose secrets', options, work);
}

/**
 * Forgets what a process that died left in the keychain for a connection that does not come to be, or is
 * no more. Where nothing was left it takes one look at a folder; where a file that may lead to it cannot
 * be read, what it may lead to stays.
 *
 * @throws {SecretStoreError}
 */
export async function sweepSecrets(options: Options, host: AccountsHost): Promise<void> {
  const loose = looseSecrets(options, host);
  if ((await loose.all()).length === 0) return;
  await whileNobodySweeps(options, host, async () => {
    const secrets = await loose.all();
    const files = new Set([registryFile(host), ...secrets.map(({ file }) => file)]);
    const use = await accountUse([...files], options, host);
    const store = await host.store(options);
    for (const { account } of secrets.filter((one) => use(one.account) === 'free')) {
      if (isTokenAccount(account)) await tokenVault(store, account).clear();
      await store.remove(account);
      await store.remove(priorAccount(account));
    }
    await loose.settled(secrets.filter(({ account }) => use(account) !== 'unknown'));
  });
}
